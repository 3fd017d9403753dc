"""A token endpoint with the client credentials grant (RFC 6749, section 4.4), for OAUTHBEARER."""

import base64
import http.server
import json
import threading
import urllib.parse

ISSUER, AUDIENCE = "millstream-testbed", "kafka"


class TokenEndpoint:
    """Listens on loopback from construction until close(). `clients`: {client id: secret}; the id becomes the token's subject."""

    def __init__(self, key, clients, lifetime=300):
        self.issued = []  # (client id, scope) in order, for tests
        endpoint = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                form = urllib.parse.parse_qs(self.rfile.read(int(self.headers.get("Content-Length", 0))).decode())
                client, secret = form.get("client_id", [""])[0], form.get("client_secret", [""])[0]
                if self.headers.get("Authorization", "").startswith("Basic "):
                    parts = base64.b64decode(self.headers["Authorization"][6:]).decode().split(":", 1)
                    client, secret = (urllib.parse.unquote(part) for part in parts)
                if form.get("grant_type") != ["client_credentials"]:
                    return self.answer(400, {"error": "unsupported_grant_type"})
                if clients.get(client) is None or clients[client] != secret:
                    return self.answer(401, {"error": "invalid_client"})
                scope = form.get("scope", [""])[0]
                endpoint.issued.append((client, scope))
                return self.answer(200, {"access_token": key.token(client, ISSUER, AUDIENCE, scope, lifetime), "token_type": "Bearer",
                                         "expires_in": lifetime})

            def answer(self, status, body):
                raw = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/token"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
