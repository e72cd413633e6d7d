"""What spark-submit runs: asks Spark questions about a store, and writes the rows of each as JSON.

    ask_spark.py STORE ANSWERS QUESTION…

The file ANSWERS.asked says when the first is about to be asked.
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
from pyspark.sql import SparkSession

store, answers, *questions = sys.argv[1:]
spark = engines.Spark(SparkSession.builder.getOrCreate())
spark.open(store)
Path(f"{answers}.asked").touch()
found = {question: spark.ask(question) for question in questions}
Path(f"{answers}.part").write_text(json.dumps(found))
os.rename(f"{answers}.part", answers)
spark.session.stop()
