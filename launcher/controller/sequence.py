"""A line in the log that says in which order the roles of a Framework are created."""

import logging

from launcher.core.checking.roleorder import SEQUENCE_ANNOTATION, annotated
from launcher.store.port import Object

log = logging.getLogger(__name__)


def tell_sequence(obj: Object) -> None:
    """Log the sequence of that Framework, if it has one, in the words that Arena's users look for."""
    metadata, annotations = obj["metadata"], obj["metadata"].get("annotations") or {}
    known = [role["name"] for role in obj["spec"].get("taskRoles") or ()]
    roles = obj["spec"].get("roleSequence") or annotated(annotations, known)[0]
    if not roles:
        return
    # The log line of Arena's operator has the roles as its users wrote them.
    written = annotations.get(SEQUENCE_ANNOTATION)
    names = written.replace(",", " ") if written else " ".join(roles)
    log.info(
        "the Role Sequence of job %s is: [%s]",
        metadata["name"],
        names,
        extra={"job": f"{metadata['namespace']}.{metadata['name']}", "uid": metadata["uid"]},
    )
