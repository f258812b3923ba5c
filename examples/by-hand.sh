#!/bin/sh
# Taking part with nothing but an editor's means: files written, renamed, appended to. A task is
# put on the board, claimed, done and reported, and no gitteam command is run in here.
#
# Somebody else's gitteam takes the edits in and answers in the same files: any command does that,
# so keep one going in another terminal, for instance `watch -n 1 gitteam task`.
#
#   examples/by-hand.sh [NAME]     in the checkout that holds .tasks/; NAME is on the team, or `user`
set -eu
name=${1:-user}

# A new task: written under a name that is nobody's business yet, then renamed into place.
cat > .tasks/.count.tmp <<END
---
subject: Count the open tasks
status: pending
owner:
---
How many are on the board right now?
END
mv .tasks/.count.tmp ".tasks/count-$$.md"

# Its number comes as its name.
until file=$(ls .tasks/[0-9]*-count-$$.md 2>/dev/null); do sleep 0.2; done

# Claim it, as an editor saves: a changed copy, renamed over the old one. `claim: 1` is the answer.
sed "s/^status:.*/status: in_progress/; s/^owner:.*/owner: $name/" "$file" > .tasks/.count.tmp
mv .tasks/.count.tmp "$file"
until grep -q '^claim: 1$' "$file" 2>/dev/null; do sleep 0.2; done

# The work, and the same way again to report it.
open=$(grep -El '^status: (pending|in_progress)$' .tasks/*.md | wc -l)
sed 's/^status:.*/status: completed/' "$file" > .tasks/.count.tmp
printf '\n## Notes\n\n- %s: %d open tasks\n' "$name" "$open" >> .tasks/.count.tmp
mv .tasks/.count.tmp "$file"

# A message is a line at the end of somebody's inbox.
printf '{"from": "%s", "content": "I counted %d open tasks"}\n' "$name" "$open" >> .team/inbox/lead.jsonl
