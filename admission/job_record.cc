#include "admission/job_record.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <system_error>

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

// The text up to the next space, which `rest` loses with it.
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

}  // namespace stowage
