#ifndef STOWAGE_CLUSTER_MPI_LINK_H_
#define STOWAGE_CLUSTER_MPI_LINK_H_

// Ranks that mpirun or srun started, joined by MPI: OpenMPI, or MPICH and what has its
// binary interface (MVAPICH, Intel MPI, Cray MPICH). The library is opened when a
// program runs, so nothing of it is needed to build, nor to run on one rank.
//
// Of MPI as little as possible is used: bytes from point to point, on a communicator of
// our own, by one thread at a time (MPI_THREAD_SERIALIZED). No wait blocks
// inside MPI: each looks at a flag that someone else raises when a rank is lost
// (cluster/lifeline.h), since MPI itself may wait for a dead rank for ever.
//
//   Result<std::unique_ptr<MpiLink>> link = MpiLink::Open(launch);
//   (*link)->GiveUpWhen(&lost);
//   (*link)->Exchange(outgoing, incoming);
//   (*link)->Finish();

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "cluster/launch.h"
#include "cluster/link.h"

namespace stowage::cluster {

/// Where to look for an MPI library, in order: the file in STOWAGE_MPI, alone; otherwise
/// the names of OpenMPI's and MPICH's, the one that `launch` is by first.
std::vector<std::string> MpiPlaces(const Launch& launch);

class MpiLink : public Link {
 public:
  /// Opens the library and initializes it, before the program has any other thread.
  /// Errors, kDevice: no library, one of another kind or for one thread alone; as many
  /// ranks as it sees are not those of `launch`, which happens where it is not the
  /// launcher's own.
  static Result<std::unique_ptr<MpiLink>> Open(const Launch& launch);

  /// Exchanges return false once *lost is true, which must outlive this.
  virtual void GiveUpWhen(const std::atomic<bool>* lost) = 0;

  /// Ends MPI. Waits for all ranks, so each must come here, and none may be lost.
  virtual void Finish() = 0;
};

}  // namespace stowage::cluster

#endif  // STOWAGE_CLUSTER_MPI_LINK_H_
