#ifndef STOWAGE_TOOLS_RANK_RUN_H_
#define STOWAGE_TOOLS_RANK_RUN_H_

// Represents one rank of a training run whose ranks were started by mpirun or srun. With one rank,
// all functions do nothing.
//
// Rank 0 prints, and writes all files except the shards of checkpoints. Output of other ranks is
// dropped, except for the error that ends them, which rank 0 prints. If a rank is lost, the others
// report the loss and exit with code 3. Checkpoints stay intact.
//
//   return RunOnRanks([&](RankRun& ranks) {
//     ...
//     return ranks.rank() == 0 ? Print(...) : kExitDone;
//   });

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "cluster/launch.h"
#include "cluster/lifeline.h"
#include "cluster/team.h"
#include "runtime/backend.h"
#include "runtime/session.h"
#include "train/run.h"

namespace stowage::tools {

class RankRun : public RunPeers {
 public:
  /// Connects to the other ranks of the launcher. Propagates errors of cluster::ReadLaunch and
  /// cluster::Team::Join.
  static Result<std::unique_ptr<RankRun>> Join();
  ~RankRun() override;
  RankRun(const RankRun&) = delete;
  RankRun& operator=(const RankRun&) = delete;

  int rank() const { return launch_.rank; }
  int ranks() const { return launch_.ranks; }
  /// Returns the index of this rank on its host.
  int local_rank() const { return launch_.local_rank; }
  bool alone() const { return team_ == nullptr; }
  /// Returns whether this rank prints and writes files.
  bool speaks() const { return rank() == 0; }
  /// Returns the collectives of the run, or null if there is one rank.
  Collectives* collectives();
  /// Returns `asked` unless it is 0. For 0, returns the number of cores of the host divided by the
  /// number of its ranks, or 0 if there is one rank.
  int Threads(int asked) const;
  /// Returns the number of bytes that this rank has sent.
  int64_t bytes_sent() const override;

  // The functions below are collective: every rank must call them.

  /// Checks that all ranks run the same program with equal options and equal `facts`. Options that
  /// may differ between hosts (--threads, --data) are not compared. Propagates errors of
  /// cluster::Agree.
  Status Agree(const cluster::Facts& facts);
  /// Returns the signal caught by the lowest rank that has caught one, or 0 if none has. The result
  /// is equal on all ranks.
  Result<int> AnyOf(int signal) override;
  /// Broadcasts a number, or params and states, from rank 0.
  Status Share(int64_t* number);
  Status Share(Runner& runner);
  /// Sums `values` over all ranks, in rank order.
  Status Sum(std::span<double> values);
  /// Ends the run of all ranks with one exit code and returns it.
  int EndTogether(int exit_code);

 private:
  friend int RunOnRanks(const std::function<int(RankRun&)>& run);
  class Silence;
  RankRun() = default;
  void OnEnd(const cluster::RankEnd& end);
  void AwaitReason();
  int End(int exit_code);

  cluster::Launch launch_;
  std::unique_ptr<Silence> silence_;  // on ranks other than 0
  std::vector<int32_t> signals_;      // of all ranks
  std::atomic<bool> is_ending_{false};
  bool has_ended_ = false;
  std::unique_ptr<cluster::Team> team_;
};

/// Runs `run` on this rank, ends together with the other ranks, and returns the exit code. An error
/// on one rank ends the others with the same code.
int RunOnRanks(const std::function<int(RankRun&)>& run);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_RANK_RUN_H_
