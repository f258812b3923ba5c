#!/bin/sh
# A teammate in a few lines of shell. Its trade: a task whose subject ends with the path of a
# committed file ("Count the lines of README.md") is done by counting that file's lines.
#
#   gitteam member add counter --role counter --external
#   gitteam task add "Count the lines of README.md" --role counter
#   examples/teammate.sh counter
#
# A message that says "stop" ends it, and so does Ctrl-C, which hands back what it was doing.
# What stands in a task is data here, a path and no more: never give such text to a shell.
set -u
me=${1:?usage: teammate.sh NAME} id=
trap 'trap "" INT TERM; [ -z "$id" ] || gitteam task release "$id" --as "$me" -m "interrupted"; exit 130' INT TERM

while :; do
    mail=$(gitteam inbox "$me" --take) || exit
    [ "$mail" = "no messages" ] || printf '%s\n' "$mail"
    printf '%s\n' "$mail" | grep -qx '  stop' && exit 0
    # What it held before a crash comes first; exit code 3 means that there is nothing, and so it waits.
    task=$(gitteam task claim --as "$me") || { [ $? = 3 ] && gitteam wait --as "$me" || exit; continue; }
    id=${task%% *} file=${task##* }    # of "12 Count the lines of README.md"
    if [ "$(git cat-file -t "HEAD:$file" 2>/dev/null)" = blob ]; then
        lines=$(git cat-file blob "HEAD:$file" | wc -l)
        gitteam task done "$id" --as "$me" -m "$((lines)) lines in $file" || exit
    else
        gitteam task cancel "$id" --as "$me" -m "no file called $file is committed here" || exit
    fi
    id=
done
