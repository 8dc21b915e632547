from pathlib import Path

from benchmarks.size import places_to_add_a_step, structure, words


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


def test_a_list_of_steps_is_a_place_to_add_one_and_a_use_is_none(tmp_path: Path) -> None:
    files = {
        "entries": 'def f(x):\n    return {"rank", "seal"} & x\n',
        "keys": 'WORDS = {"rank": 1, "seal": 2}\n',
        "compared": 'def f(x):\n    return 1 if x == "rank" else 2 if x == "seal" else 3\n',
        "functions": "STEPS = (rank, seal)\n",
        "use": 'def f(x):\n    return x["rank"], x.get("seal")\n',
        "other": 'def f(x):\n    return ("rank", "train") == x\n',
    }
    for name, text in files.items():
        (tmp_path / f"{name}.py").write_text(text)
    listed = ["compared.py", "entries.py", "functions.py", "keys.py"]
    assert places_to_add_a_step(tmp_path) == listed
