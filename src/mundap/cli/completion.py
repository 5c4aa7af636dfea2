"""`mundap completion`."""

import click

from mundap.errors import UsageError


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a completion script for your shell.

    \b
    Examples:
      mundap completion bash >> ~/.bashrc
      mundap completion fish > ~/.config/fish/completions/mundap.fish
    """
    from click.shell_completion import get_completion_class

    from mundap.cli import main

    found = get_completion_class(shell)
    if found is None:
        raise UsageError(f"no completion for {shell}")
    click.echo(found(main, {}, "mundap", "_MUNDAP_COMPLETE").source())
