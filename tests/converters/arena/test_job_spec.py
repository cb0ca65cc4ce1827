from launcher.converters.arena.job_spec import read_config


def test_a_config_file_has_a_key_and_a_value_on_each_line() -> None:
    text = "\n# a = 0\n  #b=1\n namespace =  ns \nc=d=e\nno equals sign\nc2='q'\nnamespace=last\r\n"

    assert read_config(text) == {"namespace": "last", "c": "d=e", "c2": "'q'"}
