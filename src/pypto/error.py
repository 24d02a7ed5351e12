"""The error classes of the language, under the name that users import."""

from pypto.errors import (
    FeError,
    InternalError,
    ParserError,
    PassError,
    PortabilityNote,
    PyptoError,
    PyptoGeneralError,
    PyptoNote,
    PyptoRtError,
    PyptoWarning,
    RenderedParserError,
    VerifyError,
)

__all__ = [
    "FeError",
    "InternalError",
    "ParserError",
    "PassError",
    "PortabilityNote",
    "PyptoError",
    "PyptoGeneralError",
    "PyptoNote",
    "PyptoRtError",
    "PyptoWarning",
    "RenderedParserError",
    "VerifyError",
]
