"""YAML within limits: each text here hangs, crashes or deceives a plain reader."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from opboost_ops.config import documents
from opboost_ops.config.documents import parse_yaml, read_yaml
from opboost_ops.config.loading import load_federation, load_policy, load_site
from opboost_ops.errors import ConfigError
from opboost_ops.quality.checks import tightened
from opboost_ops.quality.suites import Suite


def bomb(levels: int = 9) -> str:
    """Nine lists of nine of the list before it: 387 million entries in 400 bytes."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, levels)]
    return "\n".join(lines)


def merges(levels: int = 30) -> str:
    """Each mapping merges the one before it twice: 2^30 keys to go through."""
    lines = ["m0: &m0 {k: 1}"]
    lines += [f"m{i}: &m{i} {{<<: [*m{i - 1}, *m{i - 1}]}}" for i in range(1, levels)]
    return "\n".join(lines)


HOSTILE = {
    "brackets": ("[" * 100_000, "is nested deeper than 32 levels at line 1"),
    "closed_brackets": (
        "a:\n  " + "[" * 100_000 + "]" * 100_000,
        "deeper than 32 levels at line 2",
    ),
    "braces": ("{a: " * 100_000, "is nested deeper than 32 levels at line 1"),
    "blocks": ("- " * 100_000, "is nested deeper than 32 levels at line 1"),
    "merge_keys": (merges(), "a merge key (<<), which must be written out, at line 2"),
    "aliases": (bomb(), "has more than 500000 entries at line"),
    "deep_aliases": (
        "a: &a [[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]\nb: [[[[[[[[[[[[[[[*a]]]]]]]]]]]]]]]",
        "is nested deeper than 32 levels at line 2",
    ),
    "an_alias_of_itself": ("a: &a [*a]", "is not complete before it at line 1"),
    "a_key_twice": (
        "name: x\nid: y\nname: z",
        "the key name twice: at line 1, and again at line 3",
    ),
    "a_key_twice_quoted": ('a: {b: 1, "b": 2}', "has the key b twice: at line 1"),
    "a_number_as_key": ("a: 1\n2019: {}", "has a key that must be in quotes at line 2"),
    "a_word_as_key": ("parties: {no: {}}", "has a key that must be in quotes at line 1"),
    "an_anchor_as_key": ("parties:\n &a:\n  b: 1", "has a key that must be in quotes at line 2"),
    "a_list_as_key": ("? [a]\n: 1", "has a key that is not a plain word at line 1"),
    "a_tag": ("a: !!python/object/apply:os.system [x]", "tags (!...) are not allowed"),
    "a_binary": ("a: 1\nb: !!binary aGk=", "tags (!...) are not allowed, and one is at line 2"),
    "a_long_number": ("a: " + "9" * 50_000, "is not valid YAML"),
    "an_erased_line": ('a: 1\nb: "\\e[1A\\e[2K"', "affects the display at line 2"),
    "a_reversed_key": ('"a\\u202e": 1', "affects the display at line 1"),
    "a_long_entry": ("a: " + "x" * 200_000, "an entry of more than 100000 characters at line 1"),
    "no_such_day": ("a: 2020-99-99", "is not valid YAML"),
    "many_entries": ("a: [" + "1," * 600_000 + "]", "has more than 500000 entries at line 1"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_yaml_is_one_message_with_its_line(name: str, tmp_path: Path) -> None:
    text, told = HOSTILE[name]
    file = tmp_path / "federation.yaml"
    file.write_text(text)
    begin = time.process_time()
    with pytest.raises(ConfigError) as caught:
        read_yaml(file)
    assert time.process_time() - begin < 5
    assert told in str(caught.value)
    assert str(caught.value).startswith("federation.yaml: ")
    assert len(str(caught.value)) < 300


def test_no_reader_of_people_s_files_ends_in_a_segmentation_fault(
    tmp_path: Path,
) -> None:
    """In a process of its own, because the former reader took its process with it."""
    (tmp_path / "expectations.yaml").write_text("[" * 100_000)
    (tmp_path / "federation.yaml").write_text("[" * 100_000)
    code = (
        "import sys\nfrom pathlib import Path\n"
        "from opboost_ops.config.loading import load_federation\n"
        "from opboost_ops.errors import ConfigError\n"
        "try:\n    load_federation(Path(sys.argv[1]))\n"
        "except ConfigError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "federation.yaml")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.returncode
    assert "deeper than 32 levels" in done.stdout
    with pytest.raises(ConfigError, match="deeper than 32"):
        tightened(Suite("raw_table", (), {}), tmp_path)


@pytest.mark.parametrize("load", [load_federation, load_site, load_policy])
def test_all_three_files_have_limits(load, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "some.yaml"
    file.write_text("version: 1\nparty: a\nparty: b\n")
    with pytest.raises(ConfigError, match="the key party twice: at line 2, and again at line 3"):
        load(file)


def test_a_file_that_is_too_large_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "federation.yaml"
    with file.open("wb") as sparse:
        sparse.truncate(40 << 30)
    with pytest.raises(ConfigError, match="is larger than"):
        read_yaml(file)
    file.unlink()
    with pytest.raises(ConfigError, match=f"cannot be read.*{file}"):
        read_yaml(file)
    os.mkfifo(file)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_yaml(file)
    file.unlink()
    file.symlink_to("/dev/zero")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_yaml(file)
    file.unlink()
    # A file that is mounted as a link, as container engines do it, is none of these.
    (tmp_path / "real").write_text("a: 1")
    file.symlink_to(tmp_path / "real")
    assert read_yaml(file) == {"a": 1}
    (tmp_path / "real").write_bytes(b"a: \xff")
    with pytest.raises(ConfigError, match="not UTF-8 text"):
        read_yaml(file)


def test_anchors_of_a_modest_file_are_taken() -> None:
    text = "rule: &rule {loss: [1, 2]}\nage: *rule\nincome: *rule\n"
    assert parse_yaml(text, "policy.yaml") == yaml.safe_load(text)


def test_python_s_own_loader_has_the_same_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyYAML may have been built without libyaml."""
    monkeypatch.setattr(documents, "_LOADER", yaml.SafeLoader)
    for name in ("merge_keys", "a_key_twice", "aliases", "a_list_as_key"):
        text, told = HOSTILE[name]
        with pytest.raises(ConfigError) as caught:
            parse_yaml(text, "federation.yaml")
        assert told in str(caught.value)


#: What moves text on a screen is refused, wherever it stands.
shown = st.characters(exclude_categories=("Cc", "Cf", "Cs", "Zl", "Zp"), include_characters="\t\n")
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**40), 2**40), st.text(shown, max_size=12)
)
yaml_values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(shown, max_size=6), inner, max_size=4)
    ),
    max_leaves=20,
)


@settings(max_examples=150, deadline=None)
@given(yaml_values, st.sampled_from([None, True, False]))
def test_whatever_yaml_writes_is_read_back(document: object, flow: bool | None) -> None:
    text = yaml.safe_dump(document, default_flow_style=flow, allow_unicode=True)
    if "!!" in text:  # Text that is not printable is written with a tag.
        return
    assert parse_yaml(text, "x.yaml") == yaml.safe_load(text)


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="ab:-?[]{}&*!<>|'\"%@, \n#1.", max_size=60))
def test_any_text_is_read_as_yaml_reads_it_or_refused(text: str) -> None:
    try:
        found = parse_yaml(text, "x.yaml")
    except ConfigError:
        return
    assert found == yaml.load(text, Loader=yaml.CSafeLoader)
