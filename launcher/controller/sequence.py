"""The order in which the roles of a Framework are created, as a line in the log and an event."""

import logging

from launcher.core.checking.roleorder import SEQUENCE_ANNOTATION, annotated
from launcher.store.port import Object

log = logging.getLogger(__name__)


#: The reason of the event.
REASON = "RoleSequence"


def log_sequence(obj: Object) -> str | None:
    """Log the sequence of that Framework in the words of Arena's operator, and return them; None without a sequence."""
    metadata, annotations = obj["metadata"], obj["metadata"].get("annotations") or {}
    known = [role["name"] for role in obj["spec"].get("taskRoles") or ()]
    roles = obj["spec"].get("roleSequence") or annotated(annotations, known)[0]
    if not roles:
        return None
    # The log line of Arena's operator has the roles as its users wrote them.
    written = annotations.get(SEQUENCE_ANNOTATION)
    names = written.replace(",", " ") if written else " ".join(roles)
    message = f"the Role Sequence of job {metadata['name']} is: [{names}]"
    log.info(message, extra={"job": f"{metadata['namespace']}.{metadata['name']}", "uid": metadata["uid"]})
    return message
