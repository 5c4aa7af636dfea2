"""`mundap doctor`."""

import sys

import click

from mundap.cli import shared


@click.command()
@shared.READ
@shared.JSON
def doctor(index_path: str | None, as_json: bool) -> None:
    """Check the installation, the models, the machine and the index; say what is wrong and how to fix it.

    Exit 0 if nothing is wrong.
    """
    from mundap.diagnosis import examine

    findings = examine(index_path)
    if as_json:
        shared.print_json([finding.as_dict() for finding in findings])
    else:
        for finding in findings:
            mark = {True: "ok", False: "WRONG", None: "-"}[finding.good]
            click.echo(f"{mark:>6}  {finding.what}: {shared.clean(finding.found)}")
            if finding.advice:
                click.echo(f"{'':>8}{shared.clean(finding.advice)}")
    if any(finding.good is False for finding in findings):
        sys.exit(1)
