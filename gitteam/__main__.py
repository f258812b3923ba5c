from gitteam.cli import main

main()
