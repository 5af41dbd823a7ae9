#ifndef STOWAGE_CLUSTER_LINK_H_
#define STOWAGE_CLUSTER_LINK_H_

// Point-to-point transport between the ranks of a run: by MPI, or between threads of one
// process. Reductions are computed by cluster/rank_collectives.h, so that they have the same
// bits on every transport.
//
//   const Outgoing out[] = {{.to = 1, .bytes = mine}};
//   const Incoming in[] = {{.from = 1, .bytes = theirs}};
//   if (!link.Exchange(out, in)) Print(link.failure());
//
//   std::vector<std::unique_ptr<Link>> links = ThreadLinks(4);   // or:
//   Result<std::unique_ptr<MpiLink>> mpi = MpiLink::Open(launch);
//   (*mpi)->GiveUpWhen(&lost);
//   ...
//   (*mpi)->Finish();

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "cluster/launch.h"

namespace stowage::cluster {

struct Outgoing {
  int to = 0;
  std::span<const std::byte> bytes;
};

struct Incoming {
  int from = 0;
  std::span<std::byte> bytes;
};

class Link {
 public:
  virtual ~Link() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;

  /// Sends and receives all messages concurrently; returns when they have arrived and the
  /// outgoing buffers may be reused. There is at most one message to and one from each other
  /// rank; both ends agree on its size, and empty ones are not sent. Messages between two
  /// ranks arrive in the order of calls. Returns false if another rank or the link is lost;
  /// the link must not be used afterwards. Allocates nothing.
  virtual bool Exchange(std::span<const Outgoing> outgoing,
                        std::span<const Incoming> incoming) noexcept = 0;

  /// The size of all messages so far.
  virtual int64_t bytes_sent() const = 0;
  /// The reason why Exchange returned false; empty if only the Lifeline can tell.
  virtual std::string failure() const = 0;
};

/// Links between threads of one process, one rank each, for tests and for programs that run
/// several ranks themselves. Destroying a link loses its rank: exchanges with it return
/// false.
std::vector<std::unique_ptr<Link>> ThreadLinks(int ranks);

/// The paths of MPI libraries to try, in order: only the file in STOWAGE_MPI if it is set,
/// else the names of OpenMPI and MPICH, that of the launcher first.
std::vector<std::string> MpiPlaces(const Launch& launch);

/// Ranks that mpirun or srun started, connected by OpenMPI, or by MPICH and libraries with its
/// binary interface (MVAPICH, Intel MPI, Cray MPICH). The library is opened at run time, and
/// is not needed to build, nor to run on one rank.
///
/// Only point-to-point messages are used, on a communicator of its own, by one thread at a
/// time (MPI_THREAD_SERIALIZED). No wait blocks inside MPI, which may wait for a dead rank
/// forever: each polls a flag that is set when a rank is lost (cluster/lifeline.h).
class MpiLink : public Link {
 public:
  /// Opens and initializes the library, before the program has other threads. Errors,
  /// kDevice: no library; one of an unknown kind or without thread support; a number of
  /// ranks other than that of `launch`, as with another launcher's library.
  static Result<std::unique_ptr<MpiLink>> Open(const Launch& launch);

  /// Makes exchanges return false once *lost is true. `lost` must outlive this object.
  virtual void GiveUpWhen(const std::atomic<bool>* lost) = 0;

  /// Ends MPI. Waits for all ranks, each of which must call this and none be lost.
  virtual void Finish() = 0;
};

}  // namespace stowage::cluster

#endif  // STOWAGE_CLUSTER_LINK_H_
