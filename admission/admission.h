#ifndef STOWAGE_ADMISSION_ADMISSION_H_
#define STOWAGE_ADMISSION_ADMISSION_H_

// Reserves memory for jobs that share a device or a cgroup. Each job reserves its planned
// bytes before it starts.
//
// A ledger is one file, in which jobs reserve bytes of resources such as "device:0". A job holds
// its bytes for the lifetime of its reservation. The sum of the bytes that jobs hold of a resource
// never exceeds the resource's capacity. A job that does not fit waits or is refused. Jobs are
// served in the order of arrival: a later job, however small, never starts before an earlier job
// that waits for the same resource.
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
// description, fcntl F_OFD_SETLK). The kernel releases the lock when the process ends, for any
// reason. An unlocked record belongs to no job, and the next job reuses it. If a process is killed
// while it writes its record, the record is unlocked afterwards, so no repair is needed. Process
// IDs are not used for decisions, so containers with separate PID namespaces can share a ledger. A
// lock on the file's header serializes all decisions.
//
// A lock belongs to all processes that share the open file description. A child that was forked
// and has not called exec therefore holds the bytes together with its parent. A file that is not a
// ledger, or whose locked records are damaged, is refused and not written to. If a ledger is
// removed or replaced while jobs hold bytes, these bytes are no longer counted. On NFS, the server
// must provide locks. Jobs on several machines can then share a ledger.
//
// Different threads may use different Ledger and Reservation objects of one ledger. Only one thread
// at a time may use one of these objects.

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

/// A job of a ledger, which holds bytes of a resource or waits for them.
struct LedgerJob {
  std::string resource;  // "device:0", "cgroup" or any word.
  /// The capacity of the resource, which all its jobs must state equally.
  Bytes capacity = 0;
  Bytes bytes = 0;
  std::string name;
  bool is_held = false;  // Whether the job holds the bytes. False if it waits.
  int64_t ticket = 0;    // A job with a lower ticket arrived earlier.
  /// The time since which the job has held the bytes or waited, in seconds since 1970, UTC.
  int64_t since = 0;
  /// The process ID of the job in its own PID namespace. Only for display.
  int64_t process = 0;

  friend bool operator==(const LedgerJob&, const LedgerJob&) = default;
};

/// The size of a job's record in the file.
inline constexpr size_t kRecordBytes = 512;
/// The maximum size of the name of a resource.
inline constexpr size_t kMaxResourceBytes = 100;
/// The maximum size of the name of a job.
inline constexpr size_t kMaxJobNameBytes = 256;

/// Returns kInvalidArgument unless a record can store `job`. The resource must have 1 to
/// kMaxResourceBytes bytes and no spaces. The name must have 1 to kMaxJobNameBytes bytes
/// and must neither begin nor end with a space. Neither may contain control characters.
/// `bytes` and `capacity` must be at least 1, but `bytes` may exceed `capacity`.
Status CheckJob(const LedgerJob& job);

/// Returns the job's record, which is a line of the file. The line is padded with spaces to
/// kRecordBytes bytes, so that a job rewrites only its own record. It contains a digest of the
/// rest of the line, and the state, ticket, bytes, capacity, since, process, resource and name. If
/// a process is killed while it writes a record, the digest is wrong. `job` must pass CheckJob.
///
///   job 5f0c... held 3 2147483648 8589934592 1700000000 4711 device:0 train small
std::string FormatJobRecord(const LedgerJob& job);

/// Returns the job of a record that FormatJobRecord returned. Returns nullopt for any other
/// text, and for a job whose ticket is below 1 or whose bytes exceed its capacity.
std::optional<LedgerJob> ParseJobRecord(std::string_view record);

/// Returns a description of `job`, such as
/// `"train small" 2.0 GiB (2147483648 bytes) since 2023-11-14T22:13:20Z, process 4711`.
std::string DescribeJob(const LedgerJob& job);

/// Returns the time `seconds` seconds after the beginning of 1970, in UTC and in the form
/// "2023-11-14T22:13:20Z".
std::string FormatUtc(int64_t seconds);

/// Returns `bytes` in the form "2.0 GiB (2147483648 bytes)".
std::string FormatExactBytes(Bytes bytes);

/// The maximum number of jobs in a ledger.
inline constexpr int kMaxLedgerJobs = 4096;

struct ReservationRequest {
  std::string resource;  // "device:0", "cgroup" or any word.
  Bytes capacity = 0;    // The capacity of the resource, for all jobs together.
  Bytes bytes = 0;       // The bytes to reserve.
  std::string name;      // The name of the job in messages and lists.
  /// The maximum waiting time of Reserve. If absent, the time is unlimited.
  std::optional<std::chrono::milliseconds> patience =
      std::chrono::milliseconds(0);
  /// If set, Reserve calls this function once when it begins to wait, with the jobs of the ledger.
  std::function<void(const std::vector<LedgerJob>&)> on_wait = {};
};

/// The bytes that a job holds, or its position in the queue if it waits. Both are released when
/// this object is destroyed or the process ends.
class Reservation {
 public:
  Reservation(Reservation&& other) noexcept;
  Reservation& operator=(Reservation&& other) noexcept;
  ~Reservation();

  const LedgerJob& job() const { return job_; }
  bool is_held() const { return job_.is_held; }

  /// Holds the bytes if they fit now and no earlier job waits for the resource. Returns whether the
  /// bytes are held, now or since an earlier call. Returns kIo if the ledger cannot be read,
  /// written or locked, or was removed or replaced. Returns kInvalidArgument if a record is
  /// damaged. After a failed write, the position in the queue is lost, and later calls return kIo.
  Result<bool> TryHold();

  /// Keeps the reservation if this process calls exec. The reservation then lasts until the new
  /// program and all children that inherit the file descriptor have ended. Returns kIo if the
  /// descriptor cannot be changed.
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
  /// Opens the ledger at `path`. Creates it if the file is missing or empty. Returns kIo if the
  /// file cannot be opened or written, if it is not a regular file, if its file system has no
  /// locks, or if another process has kept it locked for 30 seconds. Returns kInvalidArgument if
  /// the file is not a ledger, or if the record of a running job is damaged.
  static Result<Ledger> Open(const std::string& path);

  /// Waits until the bytes fit and no earlier job waits for the resource, and then holds
  /// them.
  ///
  /// Returns kDevice if the bytes do not become free within `patience`, naming the jobs that hold
  /// bytes or wait. Returns kBudgetTooSmall if the bytes exceed the capacity. Returns
  /// kInvalidArgument if the request violates CheckJob, if its capacity differs from the capacity
  /// that the resource's other jobs state, or if a record is damaged. Returns kUnsupported if the
  /// ledger has kMaxLedgerJobs jobs. Returns kNotFound if the file had been removed before the
  /// call. Returns kIo in the cases of Open, and if the file is removed or replaced during the
  /// wait.
  Result<Reservation> Reserve(const ReservationRequest& request) const;

  /// Enters the queue and returns without waiting for the bytes, for callers with an event loop.
  /// If the bytes are free and no earlier job waits, the reservation holds them. Otherwise, the
  /// caller must poll Reservation::TryHold. `patience` and `on_wait` are not used. Returns the
  /// errors of Reserve except kDevice.
  Result<Reservation> Enter(const ReservationRequest& request) const;

  /// Returns the current jobs, in the order of arrival. Propagates errors of ReadLedger.
  Result<std::vector<LedgerJob>> Jobs() const;

 private:
  explicit Ledger(std::string path) : path_(std::move(path)) {}
  Result<Reservation> Admit(const ReservationRequest& request,
                            bool may_wait) const;

  std::string path_;
};

/// Returns the current jobs of the ledger at `path`, in the order of arrival. The file need not be
/// writable. Returns kNotFound if the file does not exist, and kIo if it cannot be read or locked.
/// Returns kInvalidArgument if the file is not a ledger, or if the record of a running job is
/// damaged.
Result<std::vector<LedgerJob>> ReadLedger(const std::string& path);

/// Returns the number of bytes of `resource` that `jobs` hold.
Bytes HeldBytes(const std::vector<LedgerJob>& jobs,
                const std::string& resource);

}  // namespace stowage

#endif  // STOWAGE_ADMISSION_ADMISSION_H_
