#!/bin/sh
# A short tour: a fresh repository, a team in it, a task from the board to the diary.
# Every line shown is a command that is really run. Needs gitteam and git, and leaves the repository to be looked at.
set -eu
dir=${1:-$(mktemp -d)/shop}
mkdir -p "$dir"
cd "$dir"
git init -q .
if ! git config user.name >/dev/null; then
  export GIT_AUTHOR_NAME="Jane Doe" GIT_AUTHOR_EMAIL=jane@example.com
  export GIT_COMMITTER_NAME="$GIT_AUTHOR_NAME" GIT_COMMITTER_EMAIL="$GIT_AUTHOR_EMAIL"
fi

show() {
  printf '\n$ %s\n' "$1"
  eval "$1"
}

show 'gitteam init'
show 'gitteam task add "Analyze REST endpoints"'
show 'gitteam task add "Design GraphQL schema" --blocked-by 1 -d "Types, queries, mutations"'
show 'echo "Fix the login page" > .tasks/fix-login.md        # any editor will do'
show 'gitteam task'
show 'gitteam member add alice --role backend'
show 'gitteam task claim --as alice'
show 'gitteam task claim 1 || echo "exit code $?"             # one winner; the loser is told who won'
show 'gitteam task done 1 --as alice -m "12 endpoints, see docs/rest.md"'
show "echo '{\"content\": \"Please look at pagination\"}' >> .team/inbox/alice.jsonl"
show 'gitteam inbox alice'
show 'gitteam task'
show 'git --no-pager log --oneline gitteam                    # the diary is git'"'"'s own history'
show 'git --no-pager log --oneline --author=alice gitteam'
show 'gitteam doctor'
printf '\nThe repository is in %s\n' "$dir"
