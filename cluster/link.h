#ifndef STOWAGE_CLUSTER_LINK_H_
#define STOWAGE_CLUSTER_LINK_H_

// Sends point-to-point messages between the ranks of a run, either by MPI or between threads of one
// process. Reductions are computed on top of these messages (cluster/rank_collectives.h), so that
// their results are bit-equal for every transport.
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

  /// Sends and receives all messages concurrently. Returns true when they have arrived and the
  /// outgoing buffers may be reused. There may be at most one message to and one message
  /// from each other rank. Both ends must agree on the size of a message. Empty messages
  /// are not sent. Messages between two ranks arrive in the order of calls. Returns false if
  /// another rank or the link is lost. The link must not be used after that. Allocates no memory.
  virtual bool Exchange(std::span<const Outgoing> outgoing,
                        std::span<const Incoming> incoming) noexcept = 0;

  /// Returns the number of bytes of all messages that this rank has sent.
  virtual int64_t bytes_sent() const = 0;
  /// Returns the reason why Exchange returned false. Returns an empty string if the link does not
  /// know the reason, because the Lifeline has detected the failure (cluster/lifeline.h).
  virtual std::string failure() const = 0;
};

/// Returns one link per rank, where all ranks are threads of one process, for tests and for
/// programs that run several ranks in one process. If a link is destroyed, its rank is lost, and
/// calls of Exchange that send to this rank or receive from it return false.
std::vector<std::unique_ptr<Link>> ThreadLinks(int ranks);

/// Returns the paths of MPI libraries to try, in order. If the environment variable STOWAGE_MPI is
/// set, it is the only path. Otherwise the result contains the file names of OpenMPI and MPICH.
/// OpenMPI is first if the launcher is OpenMPI's mpirun.
std::vector<std::string> MpiPlaces(const Launch& launch);

/// Connects ranks that mpirun or srun started, by MPI. The library may be OpenMPI, MPICH, or a
/// library with MPICH's binary interface (MVAPICH, Intel MPI, Cray MPICH). The library is opened at
/// run time. It is not needed to build, or to run on one rank.
///
/// Only point-to-point messages are used, on a separate communicator, by one thread at a
/// time (MPI_THREAD_SERIALIZED). Exchange does not block inside MPI, which may wait for a dead rank
/// forever. Instead, it polls MPI and a flag that is set when a rank is lost (GiveUpWhen).
class MpiLink : public Link {
 public:
  /// Opens and initializes the library. Must be called before the program has other
  /// threads. Returns kDevice if no library is found, if it is of an unknown kind or has no
  /// thread support, or if its rank or number of ranks differs from `launch`. The numbers differ
  /// if the library belongs to another launcher.
  static Result<std::unique_ptr<MpiLink>> Open(const Launch& launch);

  /// Makes Exchange return false if it has to wait while *lost is true. `lost` must outlive this
  /// object.
  virtual void GiveUpWhen(const std::atomic<bool>* lost) = 0;

  /// Finalizes MPI, which waits for all ranks. All ranks must call this function, and none may be
  /// lost.
  virtual void Finish() = 0;
};

}  // namespace stowage::cluster

#endif  // STOWAGE_CLUSTER_LINK_H_
