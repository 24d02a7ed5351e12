"""The typed face of the package is the one that the records give."""

from tests import stubs


def test_the_typed_face_is_current():
    assert stubs.PATH.read_text() == stubs.generate(), "run `python -m tests.stubs`"


def test_ops_methods_and_operators_are_typed():
    text = stubs.generate()
    assert "def exp(input: Tensor, precision_type: PrecisionType = ...) -> Tensor: ..." in text
    assert "    def sum(self, dim: int, keepdim: bool = ...) -> Tensor: ..." in text
    assert "    def __mul__(self, other: Any) -> Tensor: ..." in text
    assert "DT_FP32: DataType" in text
