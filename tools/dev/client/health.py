"""Exit code 0 when the server on this port answers GET /health with 200. usage: health.py PORT"""
import http.client
import sys


def healthy(port: int) -> bool:
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(0 if healthy(int(sys.argv[1])) else 1)
