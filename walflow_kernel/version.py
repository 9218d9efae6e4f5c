"""The version of walflow. It stands in a module that imports nothing, for `walflow --version` needs nothing more."""

__version__ = "0.1.0"
