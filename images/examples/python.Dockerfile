# A worker in Python: docker build -f images/examples/python.Dockerfile -t legs:1 .
# Libraries of your own go beside it:  pip install --target  in a stage before, copied to /app.
FROM docker.io/millstream/python:0.1.0
COPY examples/polyglot/legs.py /app/legs.py
ENTRYPOINT ["/usr/bin/python3", "legs.py"]
