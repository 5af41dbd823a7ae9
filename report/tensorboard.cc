#include "report/tensorboard.h"

#include <array>
#include <bit>

namespace stowage {
namespace {

// Writes little-endian on any machine.
template <typename T>
void AppendFixed(T value, std::string* to) {
  for (size_t byte = 0; byte < sizeof(T); ++byte) {
    to->push_back(static_cast<char>(value >> (8 * byte) & 0xff));
  }
}

void AppendVarint(uint64_t value, std::string* to) {
  while (value >= 0x80) {
    to->push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  to->push_back(static_cast<char>(value));
}

// Fields of Protocol Buffers' wire format: a number and a type, then the value.
enum WireType : uint64_t {
  kVarint = 0,
  kFixed64 = 1,
  kBytes = 2,
  kFixed32 = 5
};

void AppendKey(uint64_t field, WireType type, std::string* to) {
  AppendVarint(field << 3 | type, to);
}

void AppendBytes(uint64_t field, std::string_view bytes, std::string* to) {
  AppendKey(field, kBytes, to);
  AppendVarint(bytes.size(), to);
  to->append(bytes);
}

// Event.wall_time and Event.step, which is omitted if it is 0.
std::string EventAt(double seconds, int64_t step) {
  std::string event;
  AppendKey(1, kFixed64, &event);
  AppendFixed(std::bit_cast<uint64_t>(seconds), &event);
  if (step != 0) {
    AppendKey(2, kVarint, &event);
    AppendVarint(static_cast<uint64_t>(step), &event);
  }
  return event;
}

constexpr std::array<uint32_t, 256> MakeCrcTable() {
  std::array<uint32_t, 256> table = {};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) {
      crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82f63b78u : 0u);
    }
    table[i] = crc;
  }
  return table;
}

constexpr std::array<uint32_t, 256> kCrcTable = MakeCrcTable();

// The masked CRC of records, so that the CRC of data with embedded CRCs is safe.
uint32_t MaskedCrc(std::string_view bytes) {
  return std::rotr(Crc32c(bytes), 15) + 0xa282ead8u;
}

}  // namespace

uint32_t Crc32c(std::string_view bytes) {
  uint32_t crc = ~uint32_t{0};
  for (const char byte : bytes) {
    crc = crc >> 8 ^ kCrcTable[(crc ^ static_cast<uint8_t>(byte)) & 0xff];
  }
  return ~crc;
}

std::string TfRecord(std::string_view data) {
  std::string record;
  AppendFixed(uint64_t{data.size()}, &record);
  AppendFixed(MaskedCrc(record), &record);
  record.append(data);
  AppendFixed(MaskedCrc(data), &record);
  return record;
}

std::string VersionRecord(double seconds) {
  std::string event = EventAt(seconds, 0);
  AppendBytes(3, "brain.Event:2", &event);  // file_version
  return TfRecord(event);
}

std::string ScalarsRecord(double seconds, int64_t step,
                          std::span<const EventScalar> scalars) {
  std::string summary;
  for (const EventScalar& scalar : scalars) {
    std::string value;
    AppendBytes(1, scalar.tag, &value);
    AppendKey(2, kFixed32, &value);  // simple_value
    AppendFixed(std::bit_cast<uint32_t>(scalar.value), &value);
    AppendBytes(1, value, &summary);
  }
  std::string event = EventAt(seconds, step);
  AppendBytes(5, summary, &event);
  return TfRecord(event);
}

std::string SessionStartRecord(double seconds, int64_t step) {
  std::string log;
  AppendKey(1, kVarint, &log);  // status
  AppendVarint(1, &log);        // START
  std::string event = EventAt(seconds, step);
  AppendBytes(7, log, &event);  // session_log
  return TfRecord(event);
}

}  // namespace stowage
