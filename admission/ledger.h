#ifndef STOWAGE_ADMISSION_LEDGER_H_
#define STOWAGE_ADMISSION_LEDGER_H_

// Jobs that share a device or a cgroup reserve their planned bytes before they start.
//
// A ledger is one file. A job reserves bytes of a resource in it, and holds them until its
// reservation is gone. The sum of what is held never exceeds the resource's capacity. A job
// that does not fit waits or is refused, first come, first served: one that arrives later
// does not start before one that waits for the same resource, however small it is.
//
//   Result<Ledger> ledger = Ledger::Open("/var/tmp/gpus.ledger");
//   if (!ledger.ok()) return ledger.error();
//   Result<Reservation> held = ledger->Reserve({.resource = "device:0",
//                                               .capacity = Bytes{16} << 30,
//                                               .bytes = plan.arena_bytes(),
//                                               .name = "nightly",
//                                               .patience = std::nullopt});
//   if (!held.ok()) return held.error();   // names the jobs that hold the bytes
//   Train();                               // ~Reservation gives the bytes back
//
// There is no daemon. Each job locks its own record in the file (a lock of the open file
// description, fcntl F_OFD_SETLK), and the kernel drops the lock with the process, however
// it ends: a record that nobody locks belongs to no job, and the next job takes its place.
// Process numbers decide nothing, so containers with PID namespaces of their own can share
// a ledger. A process that is killed while it writes its record leaves an unlocked one, so
// nothing has to be repaired. The header's lock makes every decision one at a time.
//
// A lock belongs to whatever shares the open file: a child that was forked and has not
// called exec holds the bytes with its parent. A file that is no ledger, or whose locked
// records do not read, is refused and not written to. Removing or replacing a ledger while
// jobs hold bytes loses count of them. On NFS the server must provide locks; jobs on
// several machines can then share a ledger.
//
// A Ledger and its reservations may be used from several threads, each object by one at a
// time.

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "admission/job_record.h"
#include "base/bytes.h"
#include "base/result.h"

namespace stowage {

/// At most this many jobs hold or wait at a time, in one ledger.
inline constexpr int kMaxLedgerJobs = 4096;

struct ReservationRequest {
  std::string resource;  // whose bytes: "device:0", "cgroup", any word
  Bytes capacity = 0;    // what all of its jobs together may hold
  Bytes bytes = 0;
  std::string name;  // for people, in refusals and lists
  /// How long Reserve waits; 0: not at all; absent: as long as it takes.
  std::optional<std::chrono::milliseconds> patience =
      std::chrono::milliseconds(0);
  /// Called once by Reserve where it begins to wait, with the jobs of the ledger.
  std::function<void(const std::vector<LedgerJob>&)> on_wait = {};
};

/// Bytes that are held, or a place in the queue, until this is gone or the process ends.
class Reservation {
 public:
  Reservation(Reservation&& other) noexcept;
  Reservation& operator=(Reservation&& other) noexcept;
  ~Reservation();

  const LedgerJob& job() const { return job_; }
  bool is_held() const { return job_.is_held; }

  /// Holds the bytes if no earlier job waits for the resource and they fit now; returns
  /// is_held(). Errors: those of Ledger::Enter that concern the file; kIo where the ledger
  /// was removed or replaced.
  Result<bool> TryHold();

  /// Lets a program that replaces this process by exec keep the reservation, until it and
  /// all children that inherit the descriptor have ended. Error kIo.
  Status KeepOverExec() const;

 private:
  friend class Ledger;
  Reservation(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  std::string path_;
  int fd_ = -1;
  int64_t record_ = -1;
  LedgerJob job_;
};

class Ledger {
 public:
  /// Opens the ledger at `path`, and makes it where there is no file or an empty one.
  /// Errors, kIo: it cannot be opened or written; its file system has no locks; another
  /// process has kept it locked for 30 seconds. kInvalidArgument: it is no ledger.
  static Result<Ledger> Open(const std::string& path);

  /// Holds the bytes, as soon as they fit and no earlier job waits for the resource.
  /// Errors: kDevice, that they do not fit now, or not within the patience, naming
  /// the jobs that hold the bytes or wait; kBudgetTooSmall, that they exceed the capacity;
  /// kInvalidArgument: CheckJob, another capacity than that of the resource's jobs, a
  /// damaged record; kIo, as of Open; kUnsupported, too many jobs.
  Result<Reservation> Reserve(const ReservationRequest& request) const;

  /// Reserve for callers with an event loop: takes a place in the queue, held at once where
  /// Reserve would hold without waiting, and returns. Whoever waits calls TryHold from time
  /// to time. `patience` and `on_wait` are not used. Errors: those of Reserve but kDevice.
  Result<Reservation> Enter(const ReservationRequest& request) const;

  /// The jobs that hold or wait now, in order of arrival. Errors: as of ReadLedger.
  Result<std::vector<LedgerJob>> Jobs() const;

 private:
  explicit Ledger(std::string path) : path_(std::move(path)) {}
  Result<Reservation> Admit(const ReservationRequest& request,
                            bool may_wait) const;

  std::string path_;
};

/// The jobs of the ledger at `path`, which need not be writable, in order of arrival.
/// Errors: kNotFound; kIo; kInvalidArgument: it is no ledger, or a record of a job that
/// lives is damaged.
Result<std::vector<LedgerJob>> ReadLedger(const std::string& path);

/// Bytes of `resource` that are held among `jobs`.
Bytes HeldBytes(const std::vector<LedgerJob>& jobs,
                const std::string& resource);

}  // namespace stowage

#endif  // STOWAGE_ADMISSION_LEDGER_H_
