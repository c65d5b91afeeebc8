"""Who answers: shared parts and one short file per architecture. Built from sizes alone; imports no task."""
