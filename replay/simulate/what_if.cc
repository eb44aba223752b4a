#include "replay/simulate/what_if.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <regex>

#include "data/median.h"

namespace reprise {
namespace {

constexpr size_t kLongestPattern = 256;

tl::unexpected<Error> misunderstood(std::string_view text) {
  return fail(ErrorKind::kInvalid, "--what-if '{}': expected one of {}", text,
              kWhatIfForms);
}

// A positive number and its suffix.
struct Quantity {
  double number = 0;
  std::string_view suffix;
};

Result<Quantity> parse_quantity(std::string_view text, std::string_view whole) {
  Quantity quantity;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), quantity.number);
  const bool positive = quantity.number > 0 && quantity.number < 1e12;
  if (error != std::errc() || !positive) return misunderstood(whole);
  quantity.suffix = text.substr(static_cast<size_t>(end - text.data()));
  return quantity;
}

double unit_of(std::string_view suffix) {
  if (suffix == "ns") return 1;
  if (suffix == "us") return 1e3;
  if (suffix == "ms") return 1e6;
  return suffix == "s" ? 1e9 : 0;
}

Result<WhatIf> parse_target(std::string_view target, std::string_view text) {
  WhatIf what_if;
  if (target == "bandwidth") return what_if;
  if (target == "latency" || target == "launch") {
    what_if.kind =
        target == "launch" ? WhatIfKind::kLaunch : WhatIfKind::kLatency;
    return what_if;
  }
  if (target == "device" || target == "host") {
    what_if.kind = target == "host" ? WhatIfKind::kHost : WhatIfKind::kDevice;
    return what_if;
  }
  if (target == "ranks") {
    return fail(ErrorKind::kUnsupported,
                "--what-if '{}': the number of ranks cannot be changed", text);
  }
  if (target.substr(0, 3) == "op:" && target.size() > 3 &&
      target.size() < kLongestPattern) {
    what_if.kind = WhatIfKind::kOp;
    what_if.pattern = target.substr(3);
    try {
      const std::regex checked(what_if.pattern);
    } catch (const std::regex_error& error) {
      return fail(ErrorKind::kInvalid, "--what-if '{}': bad pattern: {}", text,
                  error.what());
    }
    return what_if;
  }
  if (target.substr(0, 5) == "rank:") {
    what_if.kind = WhatIfKind::kRank;
    const std::string_view number = target.substr(5);
    const auto [end, error] = std::from_chars(
        number.data(), number.data() + number.size(), what_if.rank);
    if (error == std::errc() && end == number.data() + number.size()) {
      return what_if;
    }
  }
  return misunderstood(text);
}

bool matches(const std::regex& pattern, const Unit& unit,
             const Module* module) {
  if (std::regex_search(unit.name, pattern)) return true;
  if (module == nullptr) return false;
  for (const InstructionId id : unit.ops) {
    const auto& instructions = module->entry_computation().instructions;
    if (index_of(id) < instructions.size() &&
        std::regex_search(instructions[index_of(id)].name, pattern)) {
      return true;
    }
  }
  return false;
}

Status scale_ops(const WhatIf& what_if, const Module* module,
                 PricedSchedule& priced) {
  const std::regex pattern(what_if.pattern);
  size_t found = 0;
  for (size_t unit = 0; unit < priced.duration_ns.size(); ++unit) {
    if (!matches(pattern, priced.schedule->units[unit], module)) continue;
    ++found;
    priced.duration_ns[unit] *= what_if.factor;
    priced.wire_ns[unit] *= what_if.factor;
    priced.floor_ns[unit] *= what_if.factor;
  }
  if (found > 0) return {};
  return fail(ErrorKind::kInvalid, "--what-if op:{}: no unit or op matches",
              what_if.pattern);
}

// The forms without a quantity.
std::optional<WhatIf> parse_whole(std::string_view text) {
  WhatIf what_if;
  if (text == "straggler=none") {
    what_if.kind = WhatIfKind::kStraggler;
  } else if (text == "overlap=ideal") {
    what_if.kind = WhatIfKind::kOverlap;
  } else if (text == "launch=0" || text == "launch=0x") {
    what_if.kind = WhatIfKind::kLaunch;
    what_if.factor = 0;
  } else {
    return std::nullopt;
  }
  return what_if;
}

}  // namespace

const char* const kWhatIfForms =
    "bandwidth=2x, latency=0.5x, latency=50us, op:REGEX=0.5x, rank:N=1.2x, "
    "device=0.5x, host=0.5x, launch=0, straggler=none, overlap=ideal";

Result<WhatIf> parse_what_if(std::string_view text) {
  if (const auto whole = parse_whole(text)) return *whole;
  const size_t equals = text.rfind('=');
  if (equals == std::string_view::npos) return misunderstood(text);
  Result<WhatIf> what_if = parse_target(text.substr(0, equals), text);
  if (!what_if) return what_if;
  const auto quantity = parse_quantity(text.substr(equals + 1), text);
  if (!quantity) return pass(quantity.error());
  if (quantity->suffix == "x") {
    what_if->factor = quantity->number;
  } else if (what_if->kind == WhatIfKind::kLatency &&
             unit_of(quantity->suffix) > 0) {
    what_if->latency_ns = quantity->number * unit_of(quantity->suffix);
  } else {
    return misunderstood(text);
  }
  return what_if;
}

void apply_what_if(const WhatIf& what_if, CostModel& costs) {
  for (auto& [key, price] : costs.collectives) {
    const double before_ns = price.latency_ns;
    if (what_if.kind == WhatIfKind::kBandwidth) {
      price.bandwidth_bytes_per_s *= what_if.factor;
      price.peak_bandwidth_bytes_per_s *= what_if.factor;
      for (auto& [bytes, time_ns] : price.points) {
        const double wire_ns = std::max(0.0, time_ns - before_ns);
        time_ns = time_ns - wire_ns + wire_ns / what_if.factor;
      }
    } else if (what_if.kind == WhatIfKind::kLatency) {
      price.latency_ns = what_if.latency_ns >= 0 ? what_if.latency_ns
                                                 : before_ns * what_if.factor;
      for (auto& [bytes, time_ns] : price.points) {
        time_ns = std::max(1.0, time_ns + price.latency_ns - before_ns);
      }
    }
  }
}

Status apply_what_if(const WhatIf& what_if, const Module* module,
                     PricedSchedule& priced) {
  switch (what_if.kind) {
    case WhatIfKind::kOp:
      return scale_ops(what_if, module, priced);
    case WhatIfKind::kRank:
      if (what_if.rank >= priced.rank_factor.size()) {
        return fail(ErrorKind::kInvalid,
                    "--what-if rank:{}: there are {} ranks", what_if.rank,
                    priced.rank_factor.size());
      }
      priced.rank_factor[what_if.rank] *= what_if.factor;
      break;
    case WhatIfKind::kLaunch:
      priced.dispatch_ns *= what_if.factor;
      break;
    case WhatIfKind::kStraggler:
      std::fill(priced.rank_factor.begin(), priced.rank_factor.end(),
                median(priced.rank_factor));
      break;
    case WhatIfKind::kOverlap:
      return fail(ErrorKind::kUnsupported,
                  "--what-if overlap=ideal is for imported traces; for a "
                  "program, `reprise optimize` seeks the order");
    case WhatIfKind::kDevice:
    case WhatIfKind::kHost:
      return fail(ErrorKind::kUnsupported,
                  "--what-if device and host are for imported traces; for a "
                  "program, op:.=0.5x changes all of its ops");
    case WhatIfKind::kBandwidth:
    case WhatIfKind::kLatency:
      break;
  }
  return {};
}

}  // namespace reprise
