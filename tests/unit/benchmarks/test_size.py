from pathlib import Path

from benchmarks.size import structure, words


def test_structure_and_words_of_a_package(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "__init__.py").touch()
    (tmp_path / "inner" / "long.py").write_text("\n".join(f"x{i} = {i}" for i in range(60)))
    (tmp_path / "module.py").write_text(
        '"""What it is."""\ndef f(told):\n    """It."""\n    found, rows = told, 1\n'
    )
    assert structure(tmp_path) == {
        "root_packages_and_modules": 2,
        "files": 3,
        "files_under_60_lines": 2,
        "largest_folder": 2,
    }
    assert words(tmp_path) == {"docstrings_of_one_word_or_what": 2, "locals_of_empty_names": 2}
