"""`python -m mundap`, and what torchrun starts."""

from mundap.cli import run

if __name__ == "__main__":
    run()
