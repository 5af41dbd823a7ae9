#include "cluster/launch.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <string_view>
#include <vector>

#include "base/strings.h"

namespace stowage::cluster {

namespace {

// The variables of a launcher.
struct Names {
  const char* launcher;
  const char* rank;
  const char* ranks;
  const char* local_rank;
  const char* local_ranks;  // null: in a list of all hosts
};

constexpr Names kLaunchers[] = {
    {"OpenMPI's mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", nullptr},
    {"MPICH's mpirun", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID",
     "MPI_LOCALNRANKS"},
};

// The number in a variable; absent if it is not set.
Result<std::optional<int>> Number(const char* name) {
  const char* const text = std::getenv(name);
  if (text == nullptr) return std::optional<int>();
  const std::string_view view = text;
  int number = 0;
  const auto [end, failed] =
      std::from_chars(view.data(), view.data() + view.size(), number);
  const bool ends = end == view.data() + view.size();
  if (failed == std::errc() && ends && number >= 0)
    return std::optional(number);
  return Error{ErrorCode::kInvalidArgument,
               StrCat("[cluster] the variable ", name, " is ", Quoted(view),
                      "; expected a number, as its launcher gives")};
}

// The index of this host in Slurm's step; absent if unknown.
Result<std::optional<int>> SlurmHost() {
  STOWAGE_ASSIGN_OR_RETURN(const std::optional<int> given,
                           Number("SLURM_NODEID"));
  const char* const list = std::getenv("SLURM_STEP_NODELIST");
  const char* const name = std::getenv("SLURMD_NODENAME");
  if (given || list == nullptr || name == nullptr) return given;
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<std::string> hosts,
                           ParseHostList(list));
  const auto host = std::ranges::find(hosts, std::string_view(name));
  if (host == hosts.end()) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[cluster] this host, SLURMD_NODENAME ", Quoted(name),
                        ", is none of SLURM_STEP_NODELIST ", Quoted(list))};
  }
  return std::optional(static_cast<int>(host - hosts.begin()));
}

// The number of ranks on this host by Slurm; the maximum of all hosts if this one is
// unknown.
Result<std::optional<int>> SlurmLocalRanks() {
  const char* const list = std::getenv("SLURM_STEP_TASKS_PER_NODE");
  if (list == nullptr) return std::optional<int>();
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<int> tasks,
                           ParseTasksPerNode(list));
  STOWAGE_ASSIGN_OR_RETURN(const std::optional<int> host, SlurmHost());
  if (!host) return std::optional(*std::ranges::max_element(tasks));
  if (*host < std::ssize(tasks)) {
    return std::optional(tasks[static_cast<size_t>(*host)]);
  }
  return Error{
      ErrorCode::kInvalidArgument,
      StrCat("[cluster] SLURM_STEP_TASKS_PER_NODE is ", Quoted(list), ", of ",
             tasks.size(), " hosts; this is host ", *host, ", counted from 0")};
}

Result<std::optional<int>> LocalRanks(const Names& names) {
  return names.local_ranks == nullptr ? SlurmLocalRanks()
                                      : Number(names.local_ranks);
}

}  // namespace

Result<Launch> ReadLaunch() {
  for (const Names& names : kLaunchers) {
    STOWAGE_ASSIGN_OR_RETURN(const std::optional<int> ranks,
                             Number(names.ranks));
    STOWAGE_ASSIGN_OR_RETURN(const std::optional<int> rank, Number(names.rank));
    if (!ranks || !rank) continue;
    STOWAGE_ASSIGN_OR_RETURN(const std::optional<int> number,
                             Number(names.local_rank));
    STOWAGE_ASSIGN_OR_RETURN(const std::optional<int> local, LocalRanks(names));
    if (*rank >= *ranks) {
      return Error{
          ErrorCode::kInvalidArgument,
          StrCat("[cluster] ", names.rank, " is ", *rank, " and ", names.ranks,
                 " is ", *ranks, "; expected a rank below their number")};
    }
    return Launch{.rank = *rank,
                  .ranks = *ranks,
                  .local_rank = number.value_or(0),
                  .local_ranks = std::max(local.value_or(1), 1),
                  .launcher = names.launcher,
                  .by_openmpi = &names == kLaunchers};
  }
  return Launch{};
}

int ThreadsOfRank(const Launch& launch, int host_cores, int bound_cores) {
  return std::max(1, std::min(host_cores / launch.local_ranks, bound_cores));
}

int ThreadsOfRank(const Launch& launch) {
  const auto host = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  cpu_set_t bound;
  CPU_ZERO(&bound);
  const bool known = sched_getaffinity(0, sizeof(bound), &bound) == 0;
  return ThreadsOfRank(launch, host, known ? CPU_COUNT(&bound) : host);
}

namespace {

constexpr std::string_view kDigits = "0123456789";

Error Wrong(std::string_view list, std::string_view what,
            std::string_view expected) {
  return {ErrorCode::kInvalidArgument,
          StrCat("[cluster] ", what, " in Slurm's list ", Quoted(list),
                 "; expected a form such as ", expected)};
}
Error WrongHosts(std::string_view list, std::string_view what) {
  return Wrong(list, what, "node[01-03,07]");
}

// A number of digits only, below 2^31.
std::optional<int> NumberOf(std::string_view text) {
  int number = 0;
  const auto [end, failed] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = failed == std::errc() && !text.empty() &&
                         end == text.data() + text.size() && text[0] != '-';
  return is_number ? std::optional(number) : std::nullopt;
}

// Removes and returns the text up to the first `separator`, or to the end.
std::string_view Next(std::string_view* rest, char separator) {
  const size_t end = rest->find(separator);
  const std::string_view next = rest->substr(0, end);
  *rest = end == std::string_view::npos ? "" : rest->substr(end + 1);
  return next;
}

// The number with at least `width` digits.
std::string Padded(int number, size_t width) {
  const std::string digits = std::to_string(number);
  return digits.size() >= width
             ? digits
             : std::string(width - digits.size(), '0') + digits;
}

// The content of brackets: "01-03,07" is 01, 02, 03, 07.
Result<std::vector<std::string>> Numbers(std::string_view list,
                                         std::string_view brackets) {
  std::vector<std::string> numbers;
  // An empty part after the last comma is invalid too.
  for (bool is_more = true; is_more;) {
    is_more = brackets.find(',') != std::string_view::npos;
    std::string_view part = Next(&brackets, ',');
    const std::string_view whole = part;
    const std::string_view low = Next(&part, '-');
    const bool is_range = low.size() < whole.size();
    const std::optional<int> first = NumberOf(low);
    const std::optional<int> last = is_range ? NumberOf(part) : first;
    if (!first || !last || *last < *first) {
      return WrongHosts(list, StrCat("the range ", Quoted(whole), " is none"));
    }
    if (*last - *first >= kMaxHosts - std::ssize(numbers)) {
      return WrongHosts(list, StrCat("more than ", kMaxHosts, " hosts"));
    }
    for (int64_t n = *first; n <= *last; ++n) {
      numbers.push_back(Padded(static_cast<int>(n), low.size()));
    }
  }
  return numbers;
}

// All concatenations of one of `names` and one of `ends`.
Result<std::vector<std::string>> Combined(
    std::string_view list, const std::vector<std::string>& names,
    const std::vector<std::string>& ends) {
  if (names.size() * ends.size() > size_t{kMaxHosts}) {
    return WrongHosts(list, StrCat("more than ", kMaxHosts, " hosts"));
  }
  std::vector<std::string> combined;
  for (const std::string& name : names) {
    for (const std::string& end : ends) combined.push_back(name + end);
  }
  return combined;
}

// The hosts of "rack[1-2]node[0-3]".
Result<std::vector<std::string>> Names(std::string_view list,
                                       std::string_view form) {
  if (form.empty()) return WrongHosts(list, "an empty name");
  std::vector<std::string> names = {""};
  while (!form.empty()) {
    const size_t plain = std::min(form.find_first_of("[]"), form.size());
    for (std::string& name : names) name += form.substr(0, plain);
    form.remove_prefix(plain);
    if (form.empty()) break;
    const size_t close = form.find_first_of("[]", 1);
    if (form[0] == ']' || close == std::string_view::npos ||
        form[close] == '[') {
      return WrongHosts(list, "a bracket without its other");
    }
    STOWAGE_ASSIGN_OR_RETURN(const std::vector<std::string> numbers,
                             Numbers(list, form.substr(1, close - 1)));
    STOWAGE_ASSIGN_OR_RETURN(names, Combined(list, names, numbers));
    form.remove_prefix(close + 1);
  }
  return names;
}

// The length of the first entry of `rest`: up to a comma outside of brackets.
size_t FormLength(std::string_view rest) {
  bool is_inside = false;
  for (size_t i = 0; i < rest.size(); ++i) {
    if (rest[i] == '[') is_inside = true;
    if (rest[i] == ']') is_inside = false;
    if (rest[i] == ',' && !is_inside) return i;
  }
  return rest.size();
}

}  // namespace

Result<std::vector<std::string>> ParseHostList(std::string_view list) {
  std::vector<std::string> hosts;
  std::string_view rest = list;
  while (true) {
    const size_t length = FormLength(rest);
    STOWAGE_ASSIGN_OR_RETURN(std::vector<std::string> names,
                             Names(list, rest.substr(0, length)));
    hosts.insert(hosts.end(), std::make_move_iterator(names.begin()),
                 std::make_move_iterator(names.end()));
    if (std::ssize(hosts) > kMaxHosts) {
      return WrongHosts(list, StrCat("more than ", kMaxHosts, " hosts"));
    }
    if (length == rest.size()) return hosts;
    rest.remove_prefix(length + 1);
  }
}

Result<std::vector<int>> ParseTasksPerNode(std::string_view list) {
  constexpr std::string_view kForm = "4(x2),3";
  std::vector<int> counts;
  std::string_view rest = list;
  for (bool is_more = true; is_more;) {
    is_more = rest.find(',') != std::string_view::npos;
    const std::string_view part = Next(&rest, ',');
    const size_t digits =
        std::min(part.find_first_not_of(kDigits), part.size());
    const std::optional<int> count = NumberOf(part.substr(0, digits));
    std::string_view times = part.substr(digits);
    std::optional<int> hosts = 1;
    if (times.starts_with("(x") && times.ends_with(")")) {
      hosts = NumberOf(times.substr(2, times.size() - 3));
      times = "";
    }
    if (!count || !hosts || *hosts < 1 || !times.empty()) {
      return Wrong(list, StrCat(Quoted(part), " is no count"), kForm);
    }
    if (*hosts > kMaxHosts - std::ssize(counts)) {
      return Wrong(list, StrCat("more than ", kMaxHosts, " hosts"), kForm);
    }
    counts.insert(counts.end(), static_cast<size_t>(*hosts), *count);
  }
  return counts;
}

}  // namespace stowage::cluster
