"""What gitteam costs, as ratios against a named reference measured in the same run: `python -m bench`."""
