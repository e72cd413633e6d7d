"""What spark-submit runs: asks Spark all views of a store, or one question, and writes the rows as JSON.

    ask_spark.py STORE ANSWERS [QUESTION]

Beside QUESTION the file ANSWERS.asked says when it is about to be asked.
"""
import json
import os
import sys
import time
from pathlib import Path

os.environ["TZ"] = "UTC"
time.tzset()
sys.path[:0] = [str(Path(__file__).resolve().parent)]
import engines
import shims
from pyspark.sql import SparkSession

store, answers, *question = sys.argv[1:]
spark = engines.Spark(SparkSession.builder.getOrCreate())
spark.open(store)
if question:
    Path(f"{answers}.asked").touch()
found = {name: spark.ask(name) for name in question} or {view: spark.ask(f"select * from {view}") for view in shims.views()}
Path(f"{answers}.part").write_text(json.dumps(found))
os.rename(f"{answers}.part", answers)
spark.session.stop()
