#ifndef STOWAGE_CLUSTER_TEAM_H_
#define STOWAGE_CLUSTER_TEAM_H_

// Connects one process to the other ranks of a run, by MPI and a lifeline (cluster/lifeline.h).
//
//   STOWAGE_ASSIGN_OR_RETURN(const Launch launch, ReadLaunch());
//   if (launch.ranks > 1) {
//     STOWAGE_ASSIGN_OR_RETURN(team, Team::Join(launch, {.on_end = ...}));
//     STOWAGE_RETURN_IF_ERROR(Agree(team->collectives(), facts));
//     STOWAGE_RETURN_IF_ERROR(ShareValues(team->collectives(), runner));
//     ...                            // Train.
//     team->Part([] { _exit(0); });
//   }

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cluster/launch.h"
#include "cluster/lifeline.h"
#include "cluster/link.h"
#include "cluster/rank_collectives.h"
#include "runtime/session.h"

namespace stowage::cluster {

class Team {
 public:
  /// Connects this process to the other ranks. Must be called before the process has other
  /// threads. Propagates errors of MpiLink::Open and Lifeline::Tie.
  static Result<std::unique_ptr<Team>> Join(const Launch& launch,
                                            const LifelineOptions& options);

  RankCollectives& collectives() { return *collectives_; }
  Lifeline& lifeline() { return *lifeline_; }
  int rank() const { return link_->rank(); }
  int ranks() const { return link_->ranks(); }
  /// Returns the number of bytes that this rank has sent.
  int64_t bytes_sent() const { return link_->bytes_sent(); }

  /// Waits until all ranks call this function, and finalizes MPI. Returns false, without finalizing
  /// MPI, if a rank ends before that. When MPI is finalized, it waits for all ranks a second time,
  /// and it waits forever if a rank dies during this time. If finalizing takes longer than
  /// `patience`, `on_late` is therefore called on another thread, and may end the process.
  bool Part(const std::function<void()>& on_late,
            std::chrono::milliseconds patience = std::chrono::seconds(10));

 private:
  Team() = default;

  std::unique_ptr<MpiLink> link_;
  std::unique_ptr<RankCollectives> collectives_;
  std::unique_ptr<Lifeline> lifeline_;
};

/// Copies the params and states of rank 0's runner to the runners of all ranks. All ranks must call
/// this function, with equal graphs, and all params and states must have been set on every rank
/// (Session::Initialize). Otherwise the other ranks wait for a rank that has returned an error.
/// Propagates errors of Runner::ReadBytes and Runner::WriteBytes. Returns kRankLost if a rank is
/// lost.
Status ShareValues(RankCollectives& collectives, Runner& runner);

/// Properties that must be equal on all ranks, with their values on this rank.
using Facts = std::vector<std::pair<std::string, std::string>>;

/// Compares the facts of all ranks. All ranks must call this function before the first step. Ranks
/// with different programs, options or data would not fail but train incorrectly. Returns
/// kInvalidArgument on all ranks if the facts of a rank differ from the facts of rank 0. The
/// message names the first such rank, the fact and both values, and is equal on all ranks. Returns
/// kRankLost if a rank is lost.
///
///   Status agreed = Agree(collectives, {{"program", version}, {"data", digest}});
Status Agree(RankCollectives& collectives, const Facts& facts);

}  // namespace stowage::cluster

#endif  // STOWAGE_CLUSTER_TEAM_H_
