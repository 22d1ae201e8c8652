#pragma once

namespace pome::engine {

// While one of these lives, the calling thread may queue as much CPU work as it likes. MLX counts
// the tasks of its CPU streams, ten operations each, and holds back a thread that evaluates while
// more than ten have not run. That bounds the memory of what was queued, but a decode step has
// forty: queued behind another step it would hold the engine's thread, and the answers that it
// carries, until half of it had run. Only for steps whose intermediate results are small. One
// thread calls MLX, so nothing else reads the count meanwhile.
class RunAhead {
 public:
  explicit RunAhead(bool wanted = true);
  ~RunAhead();
  RunAhead(const RunAhead&) = delete;
  RunAhead& operator=(const RunAhead&) = delete;

 private:
  const bool wanted_;
};

}  // namespace pome::engine
