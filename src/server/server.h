#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/api.h"
#include "server/generation/served_text.h"
#include "server/handlers/context.h"
#include "server/http/session.h"

namespace pome::server {

struct ServerOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 30000;                     // 0: a free one, which listen() returns
  std::string api_key;                       // empty: none is asked for
  std::string admin_api_key;                 // for what touches everybody; empty: as api_key
  std::vector<std::string> allowed_origins;  // beyond pages of this machine; "*" is any
  std::vector<std::string> allowed_hosts;    // beyond this machine's names; GuardOptions
  bool playground = true;                    // the page at `/`
  HttpLimits limits;
  ServingOptions serving;
  std::chrono::milliseconds drain_timeout{30'000};  // what still runs after so long is cancelled
  // Called once, on the network thread, when a step takes twice the watchdog's time: the engine's
  // thread cannot be ended, so the process should be. Requests have failed by then.
  std::function<void()> on_stuck = {};
  size_t prompt_threads = 2;
  int prompts_waiting_max = 256;  // requests whose prompt waits to be read; 429 past it
};

// The whole HTTP side of one engine, there before it: listen() and run() come first, serve() when
// the model was found and read. Until then /health is 503 `starting`, and everything else 503 with
// Retry-After. Every method but run() may be called from any thread, drain() and stop() also before
// run().
class Server {
 public:
  explicit Server(ServerOptions options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Binds; connections wait until run(). The port comes back. Once, before run().
  Result<uint16_t> listen();

  // Answers on the calling thread until a drain has ended or stop() was called.
  void run();

  // Requests go to this model from now on; once. `engine` and what `text` shares outlive the
  // server. `sampling_defaults`, if given, take the place of the options'.
  void serve(engine::Engine& engine, ServedText text,
             std::optional<sampling::Params> sampling_defaults = std::nullopt);

  // Graceful end: new work is refused with 503, what runs finishes (at most drain_timeout, then it
  // is cancelled), and run() returns. A second call changes nothing.
  void drain();

  // At once: requests end with `abort`, connections close, run() returns.
  void stop();

  bool draining() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace pome::server
