#!/usr/bin/env python3
"""A server of the S3 API (moto) with a bucket, until standard input ends.

    s3.py DIRECTORY

Puts the files of DIRECTORY below `tables/` of the bucket `fleet`, and prints a line of JSON: the endpoint, a key that may read it, and a second endpoint of the
same server that cuts each answer short. From then on the server asks for keys.
"""
import json
import os
import socket
import sys
import threading
import urllib.request

import boto3
import flask
from moto.iam import access_control
from moto.server import ThreadedMotoServer

# What an answer has at least before it is cut: its head, and a part of a file.
CUT = 700


def cut(port):
    """Passes on what is asked, and the beginning of what is answered."""
    def serve(client):
        with client, socket.create_connection(("127.0.0.1", port)) as server:
            asked = b""
            while b"\r\n\r\n" not in asked:
                more = client.recv(65536)
                if not more:
                    return
                asked += more
            server.sendall(asked.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1))
            answer = b""
            while len(answer) < CUT:
                more = server.recv(65536)
                if not more:
                    break
                answer += more
            client.sendall(answer[:CUT])

    listener = socket.create_server(("127.0.0.1", 0))

    def accept():
        while True:
            client, _ = listener.accept()
            threading.Thread(target=serve, args=(client,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return listener.getsockname()[1]


class Signed(access_control.S3IAMRequest):
    """Compares a signature with the path and query that were sent. moto 5.2 takes those in which werkzeug has decoded `%2F` and `%3D`, so that nobody's
    signature of a list below `tables/` is right, boto3's neither."""

    def __init__(self, *args, path, **more):
        super().__init__(*args, path=flask.request.environ["RAW_URI"], **more)


access_control.S3IAMRequest = Signed
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
host, port = server.get_host_and_port()
endpoint = f"http://127.0.0.1:{port}"
known = {"endpoint_url": endpoint, "region_name": "us-east-1", "aws_access_key_id": "first", "aws_secret_access_key": "first"}
s3, iam = boto3.client("s3", **known), boto3.client("iam", **known)
s3.create_bucket(Bucket="fleet")
top = sys.argv[1]
for directory, _, names in os.walk(top):
    for name in names:
        path = os.path.join(directory, name)
        s3.upload_file(path, "fleet", "tables/" + os.path.relpath(path, top))
iam.create_user(UserName="reader")
policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}
iam.put_user_policy(UserName="reader", PolicyName="read", PolicyDocument=json.dumps(policy))
key = iam.create_access_key(UserName="reader")["AccessKey"]
keys = urllib.request.Request(f"{endpoint}/moto-api/reset-auth", data=b"0", method="POST", headers={"Content-Type": "text/plain"})
urllib.request.urlopen(keys).read()
print(json.dumps({"endpoint": endpoint, "cut": f"http://127.0.0.1:{cut(port)}", "id": key["AccessKeyId"], "secret": key["SecretAccessKey"]}), flush=True)
sys.stdin.read()
server.stop()
