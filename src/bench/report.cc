#include "bench/report.h"

#include <iomanip>
#include <ostream>

#include "base/file.h"

namespace glint::bench {

namespace {

Json to_json(const Measurement& m) {
  Json json = {
      {"group", m.group}, {"name", m.name}, {"seconds", m.seconds}, {"value", m.value}, {"unit", m.unit}};
  if (m.limit > 0) {
    json["limit"] = m.limit;
    json["percent"] = m.percent();
    json["limited_by"] = m.limited_by;
  }
  return json;
}

}  // namespace

void Report::note(const std::string& name, const Json& value) {
  notes_[name] = value;
  out_ << name << ": " << (value.is_string() ? value.get<std::string>() : dump_json(value)) << std::endl;
}

void Report::add(const Measurement& m) {
  if (m.group != group_) out_ << '\n' << m.group << '\n';
  group_ = m.group;
  out_ << "  " << std::left << std::setw(44) << m.name << std::right << std::fixed << std::setprecision(1)
       << std::setw(9) << m.value << ' ' << std::left << std::setw(8) << m.unit;
  if (m.limit > 0) {
    out_ << std::right << " of " << std::setw(9) << m.limit << std::setw(6) << std::setprecision(0)
         << m.percent() << " %  (" << m.limited_by << ')';
  }
  out_ << std::endl;
  measurements_.push_back(m);
}

void Report::write_json(const std::filesystem::path& file) const {
  Json list = Json::array();
  for (const Measurement& m : measurements_) list.push_back(to_json(m));
  const Json document = {{"notes", notes_}, {"measurements", list}};
  write_file_atomically(file, dump_json(document) + "\n");
}

}  // namespace glint::bench
