#!/usr/bin/env python3
"""A server of the S3 API (moto) with the bucket `fleet`, until standard input ends.

Prints a line of JSON: the endpoint. With each line on standard input it prints the names in the bucket.
"""
import json
import os
import sys

import boto3
from moto.server import ThreadedMotoServer

os.environ.update(AWS_ACCESS_KEY_ID="x", AWS_SECRET_ACCESS_KEY="x", AWS_DEFAULT_REGION="us-east-1")
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
host, port = server.get_host_and_port()
endpoint = f"http://{host}:{port}"
s3 = boto3.client("s3", endpoint_url=endpoint)
s3.create_bucket(Bucket="fleet")
print(json.dumps({"endpoint": endpoint}), flush=True)
for _ in sys.stdin:
    names = [item["Key"] for page in s3.get_paginator("list_objects_v2").paginate(Bucket="fleet") for item in page.get("Contents", [])]
    print(json.dumps(names), flush=True)
server.stop()
