#include "admission/admission.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <ctime>
#include <iterator>
#include <limits>
#include <span>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "base/hash.h"
#include "base/result.h"
#include "base/strings.h"

namespace stowage {
namespace {

constexpr std::string_view kJob = "job ";
constexpr std::string_view kHeld = "held";
constexpr std::string_view kWaits = "wait";
constexpr size_t kDigestDigits = 16;
constexpr size_t kBodyAt = kJob.size() + kDigestDigits;

bool HasControls(std::string_view text) {
  return std::ranges::any_of(
      text, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

std::string DigestOf(std::string_view body) {
  Fnv1a hash;
  hash.Update(body);
  return HexDigest(hash.digest());
}

// Removes and returns the text up to the next space.
std::string_view TakeWord(std::string_view* rest) {
  const size_t end = std::min(rest->find(' '), rest->size());
  const std::string_view word = rest->substr(0, end);
  rest->remove_prefix(std::min(end + 1, rest->size()));
  return word;
}

bool TakeNumber(std::string_view* rest, int64_t* number) {
  const std::string_view word = TakeWord(rest);
  const char* const end = word.data() + word.size();
  const auto parsed = std::from_chars(word.data(), end, *number);
  return parsed.ec == std::errc() && parsed.ptr == end;
}

}  // namespace

Status CheckJob(const LedgerJob& job) {
  if (job.resource.empty() || job.resource.size() > kMaxResourceBytes ||
      HasControls(job.resource) ||
      job.resource.find(' ') != std::string::npos) {
    return InvalidArgumentError(
        "[admission] the resource ", Quoted(job.resource), " has ",
        job.resource.size(), " bytes; expected 1 to ", kMaxResourceBytes,
        " without spaces or control characters, such as device:0");
  }
  if (job.name.empty() || job.name.size() > kMaxJobNameBytes ||
      HasControls(job.name) || job.name.starts_with(' ') ||
      job.name.ends_with(' ')) {
    return InvalidArgumentError(
        "[admission] the job's name ", Quoted(job.name), " has ",
        job.name.size(), " bytes; expected 1 to ", kMaxJobNameBytes,
        " without control characters and without spaces at its ends");
  }
  if (job.bytes < 1 || job.capacity < 1) {
    return InvalidArgumentError("[admission] ", Quoted(job.name), " asks for ",
                                job.bytes, " bytes of ", Quoted(job.resource),
                                ", whose capacity is ", job.capacity,
                                "; both must be at least 1");
  }
  return {};
}

std::string FormatJobRecord(const LedgerJob& job) {
  std::string body = StrCat(" ", job.is_held ? kHeld : kWaits, " ", job.ticket,
                            " ", job.bytes, " ", job.capacity, " ", job.since,
                            " ", job.process, " ", job.resource, " ", job.name);
  constexpr size_t kBodyBytes = kRecordBytes - kBodyAt;
  STOWAGE_CHECK(body.size() < kBodyBytes);
  body.resize(kBodyBytes - 1, ' ');
  body += '\n';
  return StrCat(kJob, DigestOf(body), body);
}

std::optional<LedgerJob> ParseJobRecord(std::string_view record) {
  if (record.size() != kRecordBytes || !record.starts_with(kJob)) return {};
  const std::string_view body = record.substr(kBodyAt);
  if (record.substr(kJob.size(), kDigestDigits) != DigestOf(body)) return {};
  std::string_view rest = body.substr(1, body.size() - 2);
  LedgerJob job;
  const std::string_view state = TakeWord(&rest);
  job.is_held = state == kHeld;
  const bool has_numbers =
      TakeNumber(&rest, &job.ticket) && TakeNumber(&rest, &job.bytes) &&
      TakeNumber(&rest, &job.capacity) && TakeNumber(&rest, &job.since) &&
      TakeNumber(&rest, &job.process);
  if (!has_numbers || (!job.is_held && state != kWaits)) return {};
  job.resource = TakeWord(&rest);
  const size_t name_end = rest.find_last_not_of(' ');
  if (name_end == std::string_view::npos) return {};
  job.name = rest.substr(0, name_end + 1);
  const bool is_sound =
      CheckJob(job).ok() && job.bytes <= job.capacity && job.ticket > 0;
  if (!is_sound) return {};
  return job;
}

std::string FormatUtc(int64_t seconds) {
  const auto time = static_cast<std::time_t>(seconds);
  std::tm parts = {};
  std::array<char, 64> text = {};
  if (gmtime_r(&time, &parts) == nullptr) return StrCat("second ", seconds);
  const size_t size =
      std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return {text.data(), size};
}

std::string FormatExactBytes(Bytes bytes) {
  return StrCat(FormatBytes(bytes), " (", bytes, " bytes)");
}

std::string DescribeJob(const LedgerJob& job) {
  return StrCat(Quoted(job.name), " ", FormatExactBytes(job.bytes), " since ",
                FormatUtc(job.since), ", process ", job.process);
}

namespace {

using Milliseconds = std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr std::string_view kFormat = "stowage-ledger 1";
constexpr int64_t kRecord = kRecordBytes;
// The polling interval of a waiting job, and the timeout of the header's lock.
constexpr Milliseconds kLookEvery{50};
constexpr Milliseconds kHeaderPatience{30000};
constexpr size_t kMaxDescribed = 8;

// The header, of the size of a record, which explains the file.
std::string HeaderText() {
  std::string text = StrCat(
      kFormat,
      ": bytes that jobs have reserved; `stowage ledger FILE` prints them");
  text.resize(kRecordBytes - 1, ' ');
  return text + '\n';
}

Error LedgerError(ErrorCode code, const std::string& path,
                  std::string_view why) {
  return {code, StrCat("[admission] the ledger ", Quoted(path), " ", why)};
}

Error CannotUse(const std::string& path, int error) {
  return LedgerError(
      error == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo, path,
      StrCat("cannot be opened, read or written: ", std::strerror(error)));
}

class OpenFile {
 public:
  explicit OpenFile(int fd) : fd_(fd) {}
  OpenFile(OpenFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  OpenFile& operator=(OpenFile&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~OpenFile() {
    if (fd_ >= 0) ::close(fd_);
  }

  int get() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

enum class Opening { kRead, kWrite, kCreate };

// Opens a regular file. A sticky folder may refuse O_CREAT for an existing one.
Result<OpenFile> OpenLedgerFile(const std::string& path, Opening opening) {
  const int flags = (opening == Opening::kRead ? O_RDONLY : O_RDWR) |
                    O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  OpenFile file(::open(path.c_str(), flags));
  while (file.get() < 0 && errno == ENOENT && opening == Opening::kCreate) {
    file = OpenFile(::open(path.c_str(), flags | O_CREAT | O_EXCL, 0666));
    if (file.get() >= 0 || errno != EEXIST) break;
    file = OpenFile(::open(path.c_str(), flags));
  }
  if (file.get() < 0) {
    // A missing folder is another error than a missing ledger.
    Error error = CannotUse(path, errno);
    if (opening == Opening::kCreate) error.code = ErrorCode::kIo;
    return error;
  }
  struct stat info = {};
  if (::fstat(file.get(), &info) != 0) return CannotUse(path, errno);
  if (!S_ISREG(info.st_mode)) {
    return LedgerError(ErrorCode::kIo, path, "is no regular file");
  }
  return file;
}

// Size 0: to the end of the file and beyond.
struct flock Range(short type, int64_t start, int64_t size) {
  struct flock range = {};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  range.l_start = start;
  range.l_len = size;
  return range;
}

int64_t OffsetOf(int64_t record) { return (record + 1) * kRecord; }

// Returns true where another open file has a lock there.
Result<bool> IsLocked(const std::string& path, int fd, int64_t start,
                      int64_t size) {
  struct flock range = Range(F_WRLCK, start, size);
  if (::fcntl(fd, F_OFD_GETLK, &range) != 0) return CannotUse(path, errno);
  return range.l_type != F_UNLCK;
}

bool ReadAt(int fd, int64_t offset, std::span<char> into, size_t* got) {
  *got = 0;
  while (*got < into.size()) {
    const ssize_t count = ::pread(fd, into.data() + *got, into.size() - *got,
                                  offset + static_cast<int64_t>(*got));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    if (count == 0) break;
    *got += static_cast<size_t>(count);
  }
  return true;
}

bool WriteAt(int fd, int64_t offset, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::pwrite(fd, text.data(), text.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    text.remove_prefix(static_cast<size_t>(count));
    offset += count;
  }
  return true;
}

// The lock of the header, which guards all reads and decisions.
class HeaderLock {
 public:
  HeaderLock(HeaderLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  HeaderLock& operator=(HeaderLock&&) = delete;
  ~HeaderLock() {
    if (fd_ < 0) return;
    struct flock range = Range(F_UNLCK, 0, kRecord);
    ::fcntl(fd_, F_OFD_SETLK, &range);
  }

  // A process that is stopped while it has the lock must not block others silently.
  static Result<HeaderLock> Take(const std::string& path, int fd, short type) {
    const Clock::time_point end = Clock::now() + kHeaderPatience;
    Milliseconds pause{1};
    while (true) {
      struct flock range = Range(type, 0, kRecord);
      if (::fcntl(fd, F_OFD_SETLK, &range) == 0) return HeaderLock(fd);
      if (errno == EINTR) continue;
      if (errno != EAGAIN && errno != EACCES) {
        return LedgerError(
            ErrorCode::kIo, path,
            StrCat("cannot be locked: ", std::strerror(errno),
                   "; its file system must provide locks, keep it on a local "
                   "disk"));
      }
      if (Clock::now() >= end) {
        return LedgerError(ErrorCode::kIo, path,
                           StrCat("has been locked by another process for ",
                                  kHeaderPatience.count() / 1000,
                                  " seconds; let it go on, or end it"));
      }
      std::this_thread::sleep_for(pause);
      pause = std::min(2 * pause, Milliseconds(16));
    }
  }

 private:
  explicit HeaderLock(int fd) : fd_(fd) {}
  int fd_;
};

// Returns true where the header is whole, false in a new file or where the first process died
// while it wrote the header. Error: something else is there.
Result<bool> HasHeader(const std::string& path, int fd) {
  const std::string expected = HeaderText();
  std::string header(kRecordBytes, '\0');
  size_t got = 0;
  if (!ReadAt(fd, 0, header, &got)) return CannotUse(path, errno);
  header.resize(got);
  if (expected.starts_with(header)) return got == kRecordBytes;
  return LedgerError(
      ErrorCode::kInvalidArgument, path,
      StrCat("is no ledger: it begins with ",
             Quoted(std::string_view(header).substr(0, kFormat.size())),
             "; expected ", Quoted(kFormat), "; give another file"));
}

struct Contents {
  std::vector<LedgerJob> jobs;  // that live, in order of arrival
  int64_t free_record = -1;     // whose place a new job may take
  bool has_header = false;
};

// To be called with the header's lock. `own` is the record of this open file, whose lock the
// system does not report to it; -1: none.
Result<Contents> ReadContents(const std::string& path, int fd, int64_t own) {
  Contents contents;
  STOWAGE_ASSIGN_OR_RETURN(contents.has_header, HasHeader(path, fd));
  struct stat info = {};
  if (::fstat(fd, &info) != 0) return CannotUse(path, errno);
  const int64_t size =
      std::min<int64_t>(info.st_size, OffsetOf(kMaxLedgerJobs));
  std::string text(static_cast<size_t>(size), '\0');
  size_t got = 0;
  if (!ReadAt(fd, 0, text, &got)) return CannotUse(path, errno);
  text.resize(got);
  const auto damaged = [&](int64_t record) {
    return LedgerError(
        ErrorCode::kInvalidArgument, path,
        StrCat("is damaged: record ", record,
               " does not read, and a job holds it; end the jobs that use the "
               "ledger, then remove it"));
  };
  int64_t record = 0;
  for (; OffsetOf(record) < static_cast<int64_t>(text.size()); ++record) {
    STOWAGE_ASSIGN_OR_RETURN(const bool is_locked,
                             IsLocked(path, fd, OffsetOf(record), kRecord));
    if (!is_locked && record != own) {
      if (contents.free_record < 0) contents.free_record = record;
      continue;
    }
    std::optional<LedgerJob> job = ParseJobRecord(std::string_view(text).substr(
        static_cast<size_t>(OffsetOf(record)), kRecordBytes));
    if (!job) return damaged(record);
    contents.jobs.push_back(std::move(*job));
  }
  STOWAGE_ASSIGN_OR_RETURN(const bool is_cut,
                           IsLocked(path, fd, OffsetOf(record), 0));
  if (is_cut || own >= record) return damaged(record);
  if (contents.free_record < 0) contents.free_record = record;
  std::ranges::sort(contents.jobs, {}, &LedgerJob::ticket);
  return contents;
}

// The ticket of `job` orders it among the others.
bool HasToWait(const std::vector<LedgerJob>& jobs, const LedgerJob& job) {
  const bool is_behind = std::ranges::any_of(jobs, [&](const LedgerJob& other) {
    return other.resource == job.resource && !other.is_held &&
           other.ticket < job.ticket;
  });
  return is_behind || job.bytes > job.capacity - HeldBytes(jobs, job.resource);
}

// "held by A, B; waiting: C".
std::string DescribeJobs(const std::vector<LedgerJob>& jobs,
                         const std::string& resource) {
  std::string text;
  for (const bool is_held : {true, false}) {
    size_t count = 0;
    for (const LedgerJob& job : jobs) {
      if (job.resource != resource || job.is_held != is_held) continue;
      if (++count > kMaxDescribed) continue;
      text += count > 1 ? ", "
              : is_held ? "; held by "
                        : "; waiting before it: ";
      text += DescribeJob(job);
    }
    if (count > kMaxDescribed) {
      text += StrCat(", and ", count - kMaxDescribed, " more");
    }
  }
  return text;
}

Error DoesNotFit(const std::vector<LedgerJob>& jobs, const LedgerJob& job,
                 std::optional<Milliseconds> waited) {
  std::vector<LedgerJob> others;
  std::ranges::copy_if(
      jobs, std::back_inserter(others),
      [&](const LedgerJob& other) { return other.ticket < job.ticket; });
  const Bytes held = HeldBytes(jobs, job.resource);
  return DeviceError(
      "[admission] ", Quoted(job.name), " needs ", FormatExactBytes(job.bytes),
      " of ", Quoted(job.resource), ", which has ",
      FormatExactBytes(std::max<Bytes>(0, job.capacity - held)), " free of ",
      FormatExactBytes(job.capacity),
      waited ? StrCat(", after ",
                      Fixed(static_cast<double>(waited->count()) / 1000, 1),
                      " seconds")
             : "",
      DescribeJobs(others, job.resource), "; wait for it, or end one of these");
}

// Error unless all jobs of the resource agree on its capacity.
Status CheckCapacity(const std::vector<LedgerJob>& jobs, const LedgerJob& job) {
  for (const LedgerJob& other : jobs) {
    if (other.resource != job.resource || other.capacity == job.capacity) {
      continue;
    }
    return InvalidArgumentError(
        "[admission] ", Quoted(job.name), " gives ", Quoted(job.resource),
        " a capacity of ", FormatExactBytes(job.capacity), ", and ",
        Quoted(other.name), ", which is there already, one of ",
        FormatExactBytes(other.capacity), "; all jobs must give the same");
  }
  return {};
}

// Error unless the open file is still the one of this name.
Status CheckIsThere(const std::string& path, int fd) {
  struct stat ours = {}, there = {};
  if (::fstat(fd, &ours) == 0 && ::stat(path.c_str(), &there) == 0 &&
      ours.st_ino == there.st_ino && ours.st_dev == there.st_dev) {
    return {};
  }
  return LedgerError(ErrorCode::kIo, path,
                     "was removed or replaced while this job used it; start "
                     "its jobs again");
}

int64_t Now() { return static_cast<int64_t>(std::time(nullptr)); }

}  // namespace

Bytes HeldBytes(const std::vector<LedgerJob>& jobs,
                const std::string& resource) {
  Bytes held = 0;
  for (const LedgerJob& job : jobs) {
    if (job.resource != resource || !job.is_held) continue;
    held =
        CheckedAdd(held, job.bytes).value_or(std::numeric_limits<Bytes>::max());
  }
  return held;
}

Reservation::Reservation(Reservation&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      record_(other.record_),
      job_(std::move(other.job_)) {}

Reservation& Reservation::operator=(Reservation&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(record_, other.record_);
  std::swap(job_, other.job_);
  return *this;
}

Reservation::~Reservation() {
  if (fd_ >= 0) ::close(fd_);
}

Result<bool> Reservation::TryHold() {
  STOWAGE_CHECK(fd_ >= 0);
  if (job_.is_held) return true;
  if (record_ < 0) return CannotUse(path_, EIO);  // its place is lost
  STOWAGE_RETURN_IF_ERROR(CheckIsThere(path_, fd_));
  STOWAGE_ASSIGN_OR_RETURN(const HeaderLock lock,
                           HeaderLock::Take(path_, fd_, F_WRLCK));
  STOWAGE_ASSIGN_OR_RETURN(const Contents contents,
                           ReadContents(path_, fd_, record_));
  if (HasToWait(contents.jobs, job_)) return false;
  LedgerJob held = job_;
  held.is_held = true;
  held.since = Now();
  if (!WriteAt(fd_, OffsetOf(record_), FormatJobRecord(held))) {
    const int why = errno;
    // A locked record that is damaged would block all jobs.
    struct flock range = Range(F_UNLCK, OffsetOf(record_), kRecord);
    ::fcntl(fd_, F_OFD_SETLK, &range);
    record_ = -1;
    return CannotUse(path_, why);
  }
  job_ = std::move(held);
  return true;
}

Status Reservation::KeepOverExec() const {
  const int flags = ::fcntl(fd_, F_GETFD);
  if (flags < 0 || ::fcntl(fd_, F_SETFD, flags & ~FD_CLOEXEC) != 0) {
    return CannotUse(path_, errno);
  }
  return {};
}

Result<Ledger> Ledger::Open(const std::string& path) {
  STOWAGE_ASSIGN_OR_RETURN(const OpenFile file,
                           OpenLedgerFile(path, Opening::kCreate));
  STOWAGE_ASSIGN_OR_RETURN(const HeaderLock lock,
                           HeaderLock::Take(path, file.get(), F_WRLCK));
  STOWAGE_ASSIGN_OR_RETURN(const Contents contents,
                           ReadContents(path, file.get(), -1));
  if (!contents.has_header && !WriteAt(file.get(), 0, HeaderText())) {
    return CannotUse(path, errno);
  }
  return Ledger(path);
}

Result<Reservation> Ledger::Admit(const ReservationRequest& request,
                                  bool may_wait) const {
  LedgerJob job = {.resource = request.resource,
                   .capacity = request.capacity,
                   .bytes = request.bytes,
                   .name = request.name,
                   .since = Now(),
                   .process = ::getpid()};
  STOWAGE_RETURN_IF_ERROR(CheckJob(job));
  if (job.bytes > job.capacity) {
    return Error{
        ErrorCode::kBudgetTooSmall,
        StrCat("[admission] ", Quoted(job.name), " needs ",
               FormatExactBytes(job.bytes), ", more than the ",
               FormatExactBytes(job.capacity), " of ", Quoted(job.resource),
               "; it can never start, plan it for a smaller budget")};
  }
  STOWAGE_ASSIGN_OR_RETURN(OpenFile file,
                           OpenLedgerFile(path_, Opening::kWrite));
  const int fd = file.get();
  STOWAGE_ASSIGN_OR_RETURN(const HeaderLock lock,
                           HeaderLock::Take(path_, fd, F_WRLCK));
  STOWAGE_ASSIGN_OR_RETURN(const Contents contents,
                           ReadContents(path_, fd, -1));
  if (!contents.has_header && !WriteAt(fd, 0, HeaderText())) {
    return CannotUse(path_, errno);
  }
  STOWAGE_RETURN_IF_ERROR(CheckCapacity(contents.jobs, job));
  if (contents.jobs.size() >= kMaxLedgerJobs) {
    return UnsupportedError("[admission] ", contents.jobs.size(),
                            " jobs hold or wait in the ledger ", Quoted(path_),
                            "; at most ", kMaxLedgerJobs,
                            " can, so use another ledger");
  }
  job.ticket = contents.jobs.empty() ? 1 : contents.jobs.back().ticket + 1;
  job.is_held = !HasToWait(contents.jobs, job);
  if (!job.is_held && !may_wait) {
    return DoesNotFit(contents.jobs, job, std::nullopt);
  }
  // The record is complete before others can see it locked.
  if (!WriteAt(fd, OffsetOf(contents.free_record), FormatJobRecord(job))) {
    return CannotUse(path_, errno);
  }
  struct flock range = Range(F_WRLCK, OffsetOf(contents.free_record), kRecord);
  if (::fcntl(fd, F_OFD_SETLK, &range) != 0) return CannotUse(path_, errno);
  Reservation reservation(path_, file.Release());
  reservation.record_ = contents.free_record;
  reservation.job_ = std::move(job);
  return reservation;
}

Result<Reservation> Ledger::Enter(const ReservationRequest& request) const {
  return Admit(request, true);
}

Result<Reservation> Ledger::Reserve(const ReservationRequest& request) const {
  const Clock::time_point start = Clock::now();
  const bool may_wait = request.patience != Milliseconds(0);
  STOWAGE_ASSIGN_OR_RETURN(Reservation reservation, Admit(request, may_wait));
  if (reservation.is_held()) return reservation;
  if (request.on_wait) {
    STOWAGE_ASSIGN_OR_RETURN(const std::vector<LedgerJob> jobs, Jobs());
    request.on_wait(jobs);
  }
  while (true) {
    const auto waited =
        std::chrono::duration_cast<Milliseconds>(Clock::now() - start);
    const bool is_last = request.patience && waited >= *request.patience;
    STOWAGE_ASSIGN_OR_RETURN(const bool is_held, reservation.TryHold());
    if (is_held) return reservation;
    if (is_last) {
      STOWAGE_ASSIGN_OR_RETURN(const std::vector<LedgerJob> jobs, Jobs());
      return DoesNotFit(jobs, reservation.job(), waited);
    }
    std::this_thread::sleep_for(
        request.patience ? std::min(kLookEvery, *request.patience - waited)
                         : kLookEvery);
  }
}

Result<std::vector<LedgerJob>> Ledger::Jobs() const {
  return ReadLedger(path_);
}

Result<std::vector<LedgerJob>> ReadLedger(const std::string& path) {
  STOWAGE_ASSIGN_OR_RETURN(const OpenFile file,
                           OpenLedgerFile(path, Opening::kRead));
  STOWAGE_ASSIGN_OR_RETURN(const HeaderLock lock,
                           HeaderLock::Take(path, file.get(), F_RDLCK));
  STOWAGE_ASSIGN_OR_RETURN(Contents contents,
                           ReadContents(path, file.get(), -1));
  return std::move(contents.jobs);
}

}  // namespace stowage
