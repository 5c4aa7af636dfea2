"""The lines that guard against what an attack once found, and the test that fails when the line is broken.

`python -m tests.attack.guards` breaks each line in a copy of the project, runs its test, and reports those that pass all
the same: they would guard nothing. `tests/test_guards.py` looks whether the lines and tests are still there.
"""

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_SECONDS = 900  # a test that never ends has failed too


@dataclass(frozen=True, slots=True)
class Guard:
    """A line, what breaks it, and the test that notices.

    Attributes:
        name: What it guards against.
        file: Below `src/mundap`.
        line: The text to break; it is there once.
        broken: What it becomes.
        test: The test.
    """

    name: str
    file: str
    line: str
    broken: str
    test: str


GUARDS = (
    Guard("a file that a killed writer left stops no later one", "index/lexical.py",
          "                _remove_unlisted(folder)\n            else:", "                pass\n            else:",
          "tests/index/test_states.py::test_a_file_left_in_unfinished_work_stops_no_resumed_build"),
    Guard("verify looks at what is listed", "index/verify.py",
          "    for name in listed(folder):", "    for name in [path.name for path in folder.iterdir()]:",
          "tests/index/test_states.py::test_a_file_left_by_a_killed_writer_stops_no_later_one"),
    Guard("a lack of memory is no reason to skip a file", "documents/readers.py",
          'if said.get("failed") == "machine":', 'if said.get("failed") == "none":',
          "tests/documents/test_readers.py::test_a_limit_of_the_whole_machine_is_no_fault_of_the_file"),
    Guard("a lack of memory is no fault of a parser", "documents/__init__.py",
          "    except MemoryError:  # the reader of files says what is to be done\n        raise\n", "",
          "tests/documents/test_readers.py::test_a_file_that_takes_too_much_memory_is_skipped_and_the_next_one_read"),
    Guard("a changed file that cannot be read keeps its old version", "index/ingest.py",
          "        if old is None or (state := old.source_state(file.source)) is None:\n            return False\n        self.writer.begin",
          "        if True or (state := old.source_state(file.source)) is None:\n            return False\n        self.writer.begin",
          "tests/index/test_loss.py::test_a_changed_file_that_cannot_be_read_keeps_its_old_version"),
    Guard("a fresh build with far less is not committed", "index/build.py",
          "    if new < old * _FAR_LESS:", "    if new < 0:",
          "tests/index/test_loss.py::test_a_fresh_build_with_far_less_is_committed_only_by_force"),
    Guard("an index that is found must be one's own", "index/locate.py",
          "            if owner != os.geteuid():", "            if owner != owner:",
          "tests/index/test_locate.py::test_somebody_elses_is_refused_unless_it_is_named"),
    Guard("no mode is changed through a link", "index/lexical.py",
          "os.open(path, os.O_RDONLY | os.O_NOFOLLOW)", "os.open(path, os.O_RDONLY)",
          "tests/index/test_locate.py::test_a_link_put_there_while_a_writer_works_is_not_followed"),
    Guard("a writer works in a folder of its own", "index/writer.py",
          "                self.manifest = self.manifest.with_changes(lexical=self._new_lexical())\n            folder",
          "                base = None\n            folder",
          "tests/index/test_states.py::test_unfinished_work_does_not_change_a_score"),
    Guard("a reader's memory is limited", "documents/readers.py",
          "                resource.setrlimit(resource.RLIMIT_AS, (used + more, most))", "                pass",
          "tests/documents/test_readers.py::test_a_file_that_takes_too_much_memory_is_skipped_and_the_next_one_read"),
    Guard("a reader's time is limited", "documents/readers.py",
          "return self._received.get(timeout=seconds)", "return self._received.get(timeout=86400)",
          "tests/documents/test_readers.py::test_a_file_that_takes_too_long_is_skipped_and_the_next_one_read"),
    Guard("a cell spans no more columns than a table may have", "documents/office.py",
          "min(int(count), MOST_COLUMNS)", "min(int(count), 10**8)",
          "tests/documents/test_hostile.py::test_a_cell_that_spans_very_many_columns_takes_little_memory"),
    Guard("front matter without aliases and merge keys", "documents/plain.py",
          r'if len(text) > _MOST_FRONT_MATTER or re.search(r"[&*]\w|<<\s*:", text):', "if len(text) > _MOST_FRONT_MATTER:",
          "tests/documents/test_hostile.py::test_merge_keys_of_front_matter_are_not_unfolded"),
    Guard("clients take turns", "serving/batching.py",
          "                    self._queues.move_to_end(client)\n", "",
          "tests/serving/test_batching.py::test_clients_take_turns_however_much_one_of_them_asks_for"),
    Guard("a full queue has room for who has less than a share", "serving/batching.py",
          "return mine + more <= self._most // clients and clients > 1", "return False",
          "tests/serving/test_batching.py::test_a_full_queue_has_room_for_who_has_less_than_a_share"),
    Guard("reading costs by k", "serving/engine.py",
          "    return max(1, math.ceil(k / NUM_PASSAGES))", "    return 1",
          "tests/serving/test_batching.py::test_reading_costs_by_the_passages_that_are_read"),
    Guard("a body that comes in drops earns no time", "serving/guard.py",
          "until = self.started + self._seconds + self._received / self._slowest", "until = self.started + 40",
          "tests/serving/test_hostile.py::test_a_body_that_comes_in_drops_is_ended_soon"),
    Guard("so many uploads at once", "serving/guard.py",
          "if exchange.large and self._uploads >= self._settings.limits.uploads:", "if False:",
          "tests/serving/test_hostile.py::test_no_more_than_so_many_send_files_at_once"),
    Guard("large bodies are taken apart one after the other", "serving/uploads.py",
          "ThreadPoolExecutor(1, \"uploads\")", "ThreadPoolExecutor(8, \"uploads\")",
          "tests/serving/test_uploads.py::test_large_bodies_at_once_take_little_memory"),
    Guard("what was found while a file was cut short", "serving/engine.py",
          "            served.index()  # what was read", "            pass  # what was read",
          "tests/serving/test_indexes.py::test_what_was_found_while_a_file_was_cut_short_is_not_told"),
    Guard("a server that crashes is started again", "serving/supervisor.py",
          "        if -code not in _CRASHES or listener.fileno() < 0:", "        if True:",
          "tests/serving/test_hostile.py::test_a_server_that_crashes_is_started_again"),
    Guard("after a crash an index is looked at in full", "serving/indexes.py",
          "            if not patient:\n                raise\n", "            raise\n",
          "tests/serving/test_hostile.py::test_after_a_crash_a_damaged_index_is_waited_for"),
    Guard("a proxy lets no other names in", "serving/guard.py",
          "if not settings.token:", "if not settings.token and not settings.proxy:",
          "tests/serving/test_hostile.py::test_a_proxy_does_not_let_other_names_in"),
    Guard("a host is a name and a port", "serving/guard.py",
          "found = re.fullmatch(", "found = re.match(",
          "tests/serving/test_hostile.py::test_the_name_of_a_host"),
    Guard("trailers are no headers", "serving/connections.py",
          "        if self._in_head:\n            super().on_header(name, value)", "        super().on_header(name, value)",
          "tests/serving/test_hostile.py::test_trailers_take_the_place_of_no_header"),
    Guard("a large head in one piece", "serving/connections.py",
          "        if self._size > _LARGEST_HEAD:", "        if False:",
          "tests/serving/test_hostile.py::test_a_large_head_in_one_piece_is_refused"),
    Guard("a broken archive is no failure of the server", "serving/uploads.py",
          "    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, EOFError):", "    except OSError:",
          "tests/serving/test_hostile.py::test_a_broken_archive_is_skipped_and_no_failure_of_the_server"),
    Guard("verify looks at the files of the model", "index/verify.py",
          "        problems += verify_model(root)", "        pass",
          "tests/index/test_damage.py::test_a_missing_file_of_the_model_is_found_by_verify"),
    Guard("intact files of another state", "index/lexical.py",
          "            map_file(folder.parent, entry)", "            pass",
          "tests/index/test_damage.py::test_files_of_another_state_are_noticed"),
    Guard("small files are compared with their checksums when opened", "index/segment.py",
          "            if size <= _CHECKED and", "            if False and",
          "tests/index/test_damage.py::test_a_flipped_bit_of_a_small_file_is_noticed_at_once"),
    Guard("an unknown name in a model's config", "models/folder.py",
          "        if key not in known:", "        if False:",
          "tests/models/test_folder.py::test_a_number_beyond_reason_or_an_unknown_name_is_refused"),
    Guard("a config has its own checksum", "models/folder.py",
          "    if expected is not None and expected != _digest(facts):", "    if False:",
          "tests/models/test_folder.py::test_a_flipped_bit_in_a_config_is_noticed_and_an_edited_one_can_be_used"),
    Guard("a model that gives no numbers", "index/segment_writer.py",
          "        if not np.isfinite(rows).all():", "        if False:",
          "tests/index/test_damage.py::test_a_model_that_gives_no_numbers_is_refused"),
    Guard("a compaction without room", "index/writer.py",
          "        if isinstance(error, OSError):", "        if False:",
          "tests/index/test_loss.py::test_a_compaction_without_room_is_said_and_changes_nothing"),
    Guard("a full disk is no damage", "index/lexical.py",
          " or _without_room(folder, error) or damaged", " or damaged",
          "tests/index/test_loss.py::test_a_fresh_build_without_room_is_not_called_damage"),
    Guard("every value of a manifest has its type", "index/manifest.py",
          "    if not isinstance(value, wanted) or isinstance(value, bool) != (wanted is bool):", "    if False:",
          "tests/index/test_damage.py::test_a_manifest_with_a_wrong_field_is_an_error_and_no_crash"),
    Guard("the numbers of a manifest fit together", "index/manifest.py",
          "            _check_numbers(manifest)\n", "",
          "tests/index/test_damage.py::test_a_manifest_with_a_wrong_field_is_an_error_and_no_crash"),
    Guard("a field of a newer program", "index/manifest.py",
          "        if unknown and to_change:", "        if False:",
          "tests/index/test_damage.py::test_a_field_of_a_newer_program_is_overlooked_by_readers_and_keeps_writers_out"),
    Guard("numbers beyond reason in a model's config", "models/folder.py",
          "_Count = Annotated[int, _Bounds(1, 1_000_000)]", "_Count = Annotated[int, _Bounds(1, 10**30)]",
          "tests/models/test_folder.py::test_a_number_beyond_reason_or_an_unknown_name_is_refused"),
    Guard("weights of another dimension", "encoder/runtime.py",
          "            if vector.shape != vectors.shape[1:]:", "            if False:",
          "tests/models/test_folder.py::test_weights_of_another_dimension_are_named"),
    Guard("deep JSON is no config", "models/folder.py",
          "    except (ValueError, TypeError, AttributeError, RecursionError) as error:\n        raise ModelError(f\"{path} is not",
          "    except (ValueError, TypeError, AttributeError) as error:\n        raise ModelError(f\"{path} is not",
          "tests/models/test_folder.py::test_deep_json_is_no_config"),
    Guard("weights that are broken", "models/weights.py",
          "    except Exception as error:  # each of torch, transformers and safetensors", "    except KeyError as error:  # each of",
          "tests/encoder/test_export.py::test_broken_weights_are_said"),
    Guard("a huge integer in a recipe", "training/recipe_files.py",
          "    except (TypeError, ValueError, OverflowError):", "    except (TypeError, ValueError):",
          "tests/training/test_recipe.py::test_recipes_with_mistakes"),
    Guard("new segments are on the disk before they are named", "disk.py",
          "sync_folder(folder.parent)", "pass",
          "tests/index/test_states.py::test_new_folders_are_on_the_disk_before_the_manifest_names_them"),
    Guard("links that lead out are not followed", "documents/walk.py",
          "not link.resolve().is_relative_to(root)", "False",
          "tests/documents/test_walk.py::test_links_that_lead_out_are_not_followed_unless_asked_for"),
    Guard("a tokenizer that fails is said", "models/tokenizer.py",
          "    except BaseException as error:\n        # The library", "    except KeyError as error:\n        # The library",
          "tests/models/test_folder.py::test_a_tokenizer_that_opens_and_fails_at_some_text_is_said"),
    Guard("nobody is told how to run what weights contain", "models/weights.py",
          "    if lines[0].startswith(\"Weights only load failed\"):", "    if False:",
          "tests/encoder/test_export.py::test_weights_that_are_a_program_are_not_run"),
    Guard("what a connection refuses is noted", "serving/connections.py",
          "        self._note(reason, status)\n", "",
          "tests/serving/test_hostile.py::test_log_and_figures_say_why_a_request_was_refused"),
    Guard("what does not arrive in time is noted", "serving/app.py",
          "    if error.status_code in _WHY_BY_STATUS:", "    if False:",
          "tests/serving/test_hostile.py::test_log_and_figures_say_why_a_request_was_refused"),
    Guard("vectors that are no array", "engines/vectors.py",
          "    except Exception as error:  # numpy has no class", "    except KeyError as error:  # numpy has no class",
          "tests/engines/test_vectors.py::test_what_is_no_array_is_said"),
    Guard("a writer that died is not said to have changed nothing", "serving/writing.py",
          "as a whole or not at all:", "not at all:",
          "tests/serving/test_uploads.py::test_a_writer_that_dies_is_said_and_another_one_takes_its_place"),
)  # fmt: skip


def main() -> int:
    """Break each line, or those that are asked for, and see their tests fail."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--only", default="", help="those with this in their name or file")
    given = words.parse_args()
    asleep = []
    with tempfile.TemporaryDirectory(prefix="mundap-guards-") as folder:
        copy = _copied(Path(folder))
        for guard in GUARDS:
            if given.only in guard.name or given.only in guard.file:
                noticed = _notices(copy, guard)
                sys.stdout.write(f"{'seen to fail' if noticed else 'NOT NOTICED'}: {guard.name}: {guard.test}\n")
                sys.stdout.flush()
                asleep += [] if noticed else [guard.name]
    return 1 if asleep else 0


def _copied(folder: Path) -> Path:
    """A copy of the project, without its weights, which are only linked to."""
    weights = ROOT / "src" / "mundap" / "weights"
    for name in ("src", "tests", "examples"):
        ignore = shutil.ignore_patterns("__pycache__", "weights")
        shutil.copytree(ROOT / name, folder / name, ignore=ignore)
    shutil.copy(ROOT / "pyproject.toml", folder)
    (folder / "src" / "mundap" / "weights").symlink_to(weights)
    return folder


def _notices(copy: Path, guard: Guard) -> bool:
    """Whether the test fails with the line broken. That it passes otherwise is what `make test` is for."""
    path = copy / "src" / "mundap" / guard.file
    text = path.read_text("utf-8")
    path.write_text(text.replace(guard.line, guard.broken), "utf-8")
    words = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-n", "0", guard.test]
    environment = {**os.environ, "PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        with contextlib.suppress(subprocess.TimeoutExpired):
            done = subprocess.run(words, cwd=copy, env=environment, capture_output=True, timeout=_SECONDS)
            return done.returncode == 1  # 1 is a test that failed; others, that it could not be run
        return True
    finally:
        path.write_text(text, "utf-8")


if __name__ == "__main__":
    sys.exit(main())
