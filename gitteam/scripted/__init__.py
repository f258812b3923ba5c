"""A model that follows a script: a local server that speaks Anthropic's `/v1/messages` and costs nothing."""

from gitteam.scripted.exchange import Fault, Reply, Request
from gitteam.scripted.script import Script
from gitteam.scripted.server import Server

__all__ = ["Fault", "Reply", "Request", "Script", "Server"]
