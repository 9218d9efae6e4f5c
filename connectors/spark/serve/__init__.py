"""The port that Spark talks to.

listener   lets peers in, and ends conversations
link       one connection as frames
session    proof of both sides, then one request at a time
leases     which connection plans for a consumer
ranges     positions of the log as frames
reads      the threads that read them
secret     the token
"""
