#ifndef STOWAGE_CLUSTER_LIFELINE_H_
#define STOWAGE_CLUSTER_LIFELINE_H_

// Who of the ranks is alive. A message that does not come may be late, or its sender
// dead; MPI does not say which, and may wait for ever. So every rank keeps a connection
// of TCP to rank 0 beside MPI, on a thread of its own:
//
//   a process that dies    its system closes the connection: known at once
//   a host or a link that  nothing comes any more, also no beat, of which each end sends
//   goes, a process that   one every `beat`: known after `lost_after`
//   is stopped
//   a rank that gives up   says so, and why
//   a run that is stopped  goes on: who finds that its own clock has jumped waits anew
//   and continued, whole
//
// Rank 0 tells all others. What is known is known to each rank's Exchange
// (MpiLink::GiveUpWhen), and to whoever made the lifeline, by a call.
//
//   Result<std::unique_ptr<Lifeline>> line = Lifeline::Tie(
//       collectives, {.on_end = [](const RankEnd& end) { Print(end.why); }});
//   ...
//   (*line)->Untie();      // all is done; or
//   (*line)->GiveUp(kExitUsage, "the file is not there");

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "cluster/rank_collectives.h"

namespace stowage::cluster {

/// How a rank ended before its time.
struct RankEnd {
  int rank = 0;
  bool lost = true;   // dead, stopped, or out of reach; else it gave up
  int exit_code = 0;  // of one that gave up
  std::string why;    // for people
};

struct LifelineOptions {
  std::chrono::milliseconds beat{1000};
  std::chrono::milliseconds lost_after{20000};
  /// Called once, on a thread of the lifeline, when another rank has ended before its
  /// time; the first that is known of.
  std::function<void(const RankEnd&)> on_end = {};
};

class Lifeline {
 public:
  /// Connects all ranks to rank 0; each must call this. Errors, kDevice: sockets cannot
  /// be had, or rank 0 cannot be reached at any address of its host, which are named.
  static Result<std::unique_ptr<Lifeline>> Tie(RankCollectives& collectives,
                                               const LifelineOptions& options);

  /// Ends as if this rank had died.
  ~Lifeline();
  Lifeline(const Lifeline&) = delete;
  Lifeline& operator=(const Lifeline&) = delete;

  /// Whether a rank has ended before its time.
  const std::atomic<bool>& broken() const { return broken_; }

  /// Tells the others that this rank ends, with that exit code and message. From then on
  /// nothing is told here. Where this is not rank 0, waits until that has ended, so that
  /// it can say why before a launcher ends all; for some seconds at most.
  void GiveUp(int exit_code, const std::string& why);

  /// This rank is done, and its end no loss. Returns when all are, or one has ended
  /// before its time: false then.
  bool Untie();

 private:
  struct Peer;
  struct Stranger;
  Lifeline(int rank, int ranks, const LifelineOptions& options);
  Status Open();
  Status Accept(int listener, const std::string& token);
  void Welcome(Stranger stranger, const std::string& token);
  Status Connect(const std::string& invitation);
  void Watch();
  bool Read(Peer& peer);
  bool Take(Peer& peer, const std::string& frame);
  void End(RankEnd end);
  void NoteDone();
  void Send(Peer& peer, const std::string& frame);
  void SendAll(const std::string& frame);

  const int rank_, ranks_;
  const LifelineOptions options_;
  std::vector<std::unique_ptr<Peer>> peers_;  // rank 0's: all; theirs: rank 0
  std::atomic<bool> broken_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  // What the mutex guards, and sending.
  bool is_done_ = false;  // this rank
  bool gave_up_ = false;
  bool all_done_ = false;   // all ranks
  int wake_[2] = {-1, -1};  // a pipe whose end ends the thread
  std::thread thread_;
};

}  // namespace stowage::cluster

#endif  // STOWAGE_CLUSTER_LIFELINE_H_
