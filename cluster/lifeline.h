#ifndef STOWAGE_CLUSTER_LIFELINE_H_
#define STOWAGE_CLUSTER_LIFELINE_H_

// Detects failures of ranks. If a message has not arrived, it may be late, or its sender may be
// dead. MPI does not distinguish these cases and may wait forever. Every rank therefore has a TCP
// connection to rank 0, which a separate thread serves. Both ends send a heartbeat at the interval
// LifelineOptions::beat.
//
//   failure                  detection
//   a process dies           immediately: the system closes the connection
//   a host or network fails  after `lost_after`: no heartbeat arrives
//   a process is stopped     after `lost_after`: no heartbeat arrives
//   a rank gives up          immediately: it sends a message with the reason
//
// If all ranks are stopped and continued, for example by Slurm, no failure is detected: a rank that
// notices that it was stopped restarts its timeouts. Rank 0 notifies all other ranks of a failure.
// On each rank, the failure ends calls of Link::Exchange (MpiLink::GiveUpWhen) and is reported to
// LifelineOptions::on_end.
//
//   Result<std::unique_ptr<Lifeline>> line = Lifeline::Tie(
//       collectives, {.on_end = [](const RankEnd& end) { Print(end.why); }});
//   ...
//   (*line)->Untie();                                    // Or, if this rank cannot continue:
//   (*line)->GiveUp(kExitUsage, "the file is missing");

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

/// Describes how a rank ended before all ranks were done.
struct RankEnd {
  int rank = 0;
  /// True if the rank is dead, stopped or unreachable. False if it gave up.
  bool lost = true;
  int exit_code = 0;  // The exit code, if the rank gave up.
  std::string why;    // The reason, for messages.
};

struct LifelineOptions {
  /// The time between two heartbeats.
  std::chrono::milliseconds beat{1000};
  /// The time without a heartbeat after which a rank is lost.
  std::chrono::milliseconds lost_after{20000};
  /// Called once, on the lifeline's thread, when the first other rank ends before all ranks are
  /// done.
  std::function<void(const RankEnd&)> on_end = {};
};

class Lifeline {
 public:
  /// Connects all ranks to rank 0. All ranks must call this function. If connecting fails on one
  /// rank, it fails on all. Returns kDevice if sockets are not available, if a rank does not reach
  /// rank 0 at any address of rank 0's host, which the message lists, or if not all ranks have
  /// connected within 30 seconds. Returns kRankLost if a rank is lost during the call.
  /// `collectives` is not used after the call.
  static Result<std::unique_ptr<Lifeline>> Tie(RankCollectives& collectives,
                                               const LifelineOptions& options);

  /// Closes the connections. The other ranks consider this rank lost, unless it has called Untie or
  /// GiveUp.
  ~Lifeline();
  Lifeline(const Lifeline&) = delete;
  Lifeline& operator=(const Lifeline&) = delete;

  /// Returns a flag that is true once another rank has ended before all ranks were done.
  const std::atomic<bool>& broken() const { return broken_; }

  /// Notifies the other ranks that this rank ends with an exit code, for the reason `why`. Failures
  /// of other ranks are no longer reported on this rank. On ranks other than 0, waits at most five
  /// seconds for rank 0 to end, so that rank 0 can print the reason before a launcher kills all
  /// ranks.
  void GiveUp(int exit_code, const std::string& why);

  /// Marks this rank as done, and waits until all ranks are done. The end of this rank is then not
  /// a failure. Returns true when all ranks are done, and false if a rank ends before that.
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
  // All ranks on rank 0, and rank 0 on the others.
  std::vector<std::unique_ptr<Peer>> peers_;
  std::atomic<bool> broken_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  // The mutex guards the next three fields, and sending.
  bool is_done_ = false;  // This rank.
  bool gave_up_ = false;
  bool all_done_ = false;   // All ranks.
  int wake_[2] = {-1, -1};  // A pipe. Closing it ends the thread.
  std::thread thread_;
};

}  // namespace stowage::cluster

#endif  // STOWAGE_CLUSTER_LIFELINE_H_
