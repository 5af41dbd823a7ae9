#ifndef STOWAGE_CLUSTER_LINK_H_
#define STOWAGE_CLUSTER_LINK_H_

// What joins the ranks of a run: bytes from one to another, and nothing more. Sums
// are ours (cluster/rank_collectives.h), so that they have the same bits whatever
// carries the bytes.
//
//   const Outgoing out[] = {{.to = 1, .bytes = mine}};
//   const Incoming in[] = {{.from = 1, .bytes = theirs}};
//   if (!link.Exchange(out, in)) Print(link.failure());

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

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

}  // namespace stowage::cluster

#endif  // STOWAGE_CLUSTER_LINK_H_
