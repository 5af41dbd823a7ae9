#ifndef STOWAGE_ADMISSION_ADMISSION_H_
#define STOWAGE_ADMISSION_ADMISSION_H_

// Jobs that share a device or a cgroup reserve their planned bytes before they start.
//
// A ledger is one file. A job reserves bytes of a resource in it, and holds them for the
// lifetime of its reservation. The sum of the bytes held never exceeds the resource's
// capacity. A job that does not fit waits or is refused, first come, first served: a later
// job never starts before an earlier one that waits for the same resource, however small.
//
//   Result<Ledger> ledger = Ledger::Open("/var/tmp/gpus.ledger");
//   if (!ledger.ok()) return ledger.error();
//   Result<Reservation> held = ledger->Reserve({.resource = "device:0",
//                                               .capacity = Bytes{16} << 30,
//                                               .bytes = plan.arena_bytes(),
//                                               .name = "nightly",
//                                               .patience = std::nullopt});
//   if (!held.ok()) return held.error();   // names the jobs that hold the bytes
//   Train();                               // ~Reservation releases the bytes
//
// There is no daemon. Each job locks its own record in the file (a lock of the open file
// description, fcntl F_OFD_SETLK), and the kernel drops the lock with the process, however
// it ends: an unlocked record belongs to no job, and the next job reuses it. Process numbers
// decide nothing, so containers with their own PID namespaces can share a ledger. A process
// killed while it writes its record leaves an unlocked one, so nothing has to be repaired.
// The header's lock serializes all decisions.
//
// A lock belongs to all processes that share the open file: a child that was forked and has
// not called exec holds the bytes with its parent. A file that is not a ledger, or whose
// locked records are damaged, is refused and not written to. If a ledger is removed or
// replaced while jobs hold bytes, these are no longer counted. On NFS the server must
// provide locks; jobs on several machines can then share a ledger.
//
// A Ledger and its reservations may be used from several threads, each object by one at a
// time.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace stowage {

/// A job of a ledger: the bytes of a resource that it holds or waits for.
struct LedgerJob {
  std::string resource;  // "device:0", "cgroup", any word
  Bytes capacity = 0;    // of the resource; equal for all its jobs
  Bytes bytes = 0;
  std::string name;
  bool is_held = false;  // false: it waits
  int64_t ticket = 0;    // a job with a lower one arrived earlier
  int64_t since = 0;     // that it holds or waits: seconds since 1970, UTC
  /// The process that reserved, in its own PID namespace. Only for display.
  int64_t process = 0;

  friend bool operator==(const LedgerJob&, const LedgerJob&) = default;
};

inline constexpr size_t kRecordBytes = 512;
inline constexpr size_t kMaxResourceBytes = 100;
inline constexpr size_t kMaxJobNameBytes = 256;

/// Error, kInvalidArgument, unless a record can hold the job: a resource of 1 to
/// kMaxResourceBytes bytes without spaces, a name of 1 to kMaxJobNameBytes that neither
/// begins nor ends with a space, no control characters in either, and at least 1 byte. The bytes may
/// exceed the capacity.
Status CheckJob(const LedgerJob& job);

/// The job's line in the file: kRecordBytes bytes, padded with spaces so that a job rewrites
/// only its own record, with a digest, the state, ticket, bytes, capacity, since, process,
/// resource and name. A process that is killed while writing leaves a wrong digest.
/// Precondition: CheckJob.
///
///   job 5f0c... held 3 2147483648 8589934592 1700000000 4711 device:0 train small
std::string FormatJobRecord(const LedgerJob& job);

/// The inverse of FormatJobRecord; absent for any other text.
std::optional<LedgerJob> ParseJobRecord(std::string_view record);

/// "\"train small\" 2.0 GiB (2147483648 bytes) since 2023-11-14T22:13:20Z, process 4711".
std::string DescribeJob(const LedgerJob& job);

/// Seconds since 1970 as "2023-11-14T22:13:20Z".
std::string FormatUtc(int64_t seconds);

/// "2.0 GiB (2147483648 bytes)".
std::string FormatExactBytes(Bytes bytes);

/// The maximum number of jobs of a ledger.
inline constexpr int kMaxLedgerJobs = 4096;

struct ReservationRequest {
  std::string resource;  // "device:0", "cgroup", any word
  Bytes capacity = 0;    // of the resource, for all its jobs together
  Bytes bytes = 0;
  std::string name;  // in messages and lists
  /// The maximum wait of Reserve; absent: unlimited.
  std::optional<std::chrono::milliseconds> patience =
      std::chrono::milliseconds(0);
  /// Called once by Reserve when it begins to wait, with the jobs of the ledger.
  std::function<void(const std::vector<LedgerJob>&)> on_wait = {};
};

/// Bytes that are held, or a place in the queue, until this object or the process ends.
class Reservation {
 public:
  Reservation(Reservation&& other) noexcept;
  Reservation& operator=(Reservation&& other) noexcept;
  ~Reservation();

  const LedgerJob& job() const { return job_; }
  bool is_held() const { return job_.is_held; }

  /// Holds the bytes if no earlier job waits for the resource and they fit now; returns
  /// is_held(). Errors: those of Ledger::Enter about the file; kIo if the ledger was removed
  /// or replaced.
  Result<bool> TryHold();

  /// Keeps the reservation over exec, until the new program and all children that inherit
  /// the descriptor have ended. Error kIo.
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
  /// Opens the ledger at `path`, and creates it if the file is missing or empty. Errors, kIo:
  /// it cannot be opened or written; its file system has no locks; another process has kept
  /// it locked for 30 seconds. kInvalidArgument: it is not a ledger.
  static Result<Ledger> Open(const std::string& path);

  /// Holds the bytes, as soon as they fit and no earlier job waits for the resource.
  /// Errors: kDevice, that they do not fit now, or not within the patience, naming
  /// the jobs that hold the bytes or wait; kBudgetTooSmall, that they exceed the capacity;
  /// kInvalidArgument: CheckJob, another capacity than that of the resource's jobs, a
  /// damaged record; kIo, as of Open; kUnsupported, too many jobs.
  Result<Reservation> Reserve(const ReservationRequest& request) const;

  /// Reserve for callers with an event loop: takes a place in the queue and returns, holding
  /// the bytes if Reserve would not wait. While waiting, the caller polls TryHold.
  /// `patience` and `on_wait` are not used. Errors: those of Reserve except kDevice.
  Result<Reservation> Enter(const ReservationRequest& request) const;

  /// The current jobs, in order of arrival. Errors: those of ReadLedger.
  Result<std::vector<LedgerJob>> Jobs() const;

 private:
  explicit Ledger(std::string path) : path_(std::move(path)) {}
  Result<Reservation> Admit(const ReservationRequest& request,
                            bool may_wait) const;

  std::string path_;
};

/// The jobs of the ledger at `path`, which need not be writable, in order of arrival.
/// Errors: kNotFound; kIo; kInvalidArgument: it is not a ledger, or the record of a running
/// job is damaged.
Result<std::vector<LedgerJob>> ReadLedger(const std::string& path);

/// The bytes of `resource` that `jobs` hold.
Bytes HeldBytes(const std::vector<LedgerJob>& jobs,
                const std::string& resource);

}  // namespace stowage

#endif  // STOWAGE_ADMISSION_ADMISSION_H_
