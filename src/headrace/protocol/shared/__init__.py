"""What several processes of one server do as one: its sessions, their streams, and changes that all are told of.

Everything here is made of messages, records and logs of a :class:`headrace.protocol.backplane.Backplane`; a server
without one makes nothing of it.

==================== =================================================================================
``sessions``         the sessions of a process: found in the backplane, kept, ended
``session``          one of them: its record, whose answer goes where, what is cancelled on all
``streams``          who owns what a client is told beside its requests, and how that moves
``session_streams``  one session's part in that
``events``           what streams sent, in logs that any process can read
``replay``           a POST stream that is read from a log while another process writes it
``posts``            those streams, from the side of who writes and of who reads
``wire``             questions of one process to another, and who lives
``fanout``           changes: keys told to all, each process tells its own receivers
==================== =================================================================================
"""

__all__ = ()
