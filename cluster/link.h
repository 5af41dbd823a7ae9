#ifndef STOWAGE_CLUSTER_LINK_H_
#define STOWAGE_CLUSTER_LINK_H_

// What joins the ranks of a run: bytes from one to another, and nothing more. Sums
// are ours (cluster/rank_collectives.h), so that they have the same bits whatever
// carries the bytes.
//
//   const Outgoing out[] = {{.to = 1, .bytes = mine}};
//   const Incoming in[] = {{.from = 1, .bytes = theirs}};
//   if (!link.Exchange(out, in)) Print(link.failure());

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

  /// Sends and receives all of it, at once; returns when what was received is there
  /// and what was sent may change. At most one message to, and one from, each other
  /// rank; the two ends of one agree on its size, and empty ones are not sent. What
  /// a rank sends to another arrives in the order of its calls. False: another rank
  /// or the link was lost, after which nothing else may be asked of it. Allocates
  /// nothing of its own.
  virtual bool Exchange(std::span<const Outgoing> outgoing,
                        std::span<const Incoming> incoming) noexcept = 0;

  /// Of all messages so far.
  virtual int64_t bytes_sent() const = 0;
  /// Why Exchange returned false; empty where another will know (Lifeline).
  virtual std::string failure() const = 0;
};

// Links between threads of one process, a rank each: for tests, and for programs that
// run several ranks themselves.
//
//   std::vector<std::unique_ptr<Link>> links = ThreadLinks(4);
//   RankCollectives collectives(*links[rank]);  // in each thread

/// A link for each of `ranks` ranks; each is for one thread. Once one is destroyed,
/// its rank is lost: exchanges with it return false.
std::vector<std::unique_ptr<Link>> ThreadLinks(int ranks);

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

#endif  // STOWAGE_CLUSTER_LINK_H_
