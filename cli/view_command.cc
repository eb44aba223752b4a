// reprise view: the report of a trace or plan, or one that was written before,
// in this machine's browser, without a file of it.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "cli/command.h"
#include "cli/flags.h"
#include "cli/loopback_server.h"
#include "cli/output.h"
#include "cli/report_pages.h"
#include "data/file.h"

namespace reprise {
namespace {

class ViewCommand : public Command {
 public:
  std::string name() const override { return "view"; }
  std::string summary() const override {
    return "Show the report of a trace or plan to a browser here";
  }

  void add_flags(Flags& flags) override {
    flags
        .add_option("inputs", inputs_,
                    "a trace, two to compare, a plan, or a report (.html)")
        .required()
        .type_name("FILE");
    flags.add_option("--port", port_, "on 127.0.0.1; 0: any free one (default)")
        .range(0, 65535);
    flags.footer(
        "Prints the address, which only browsers of this machine reach and\n"
        "nobody guesses, until Ctrl-C. From afar: ssh -L PORT:127.0.0.1:PORT "
        "HOST.");
  }

  Result<int> run() override {
    const Result<std::string> html = page();
    if (!html) return pass(html.error());
    const Result<LoopbackServer> server =
        LoopbackServer::listen(static_cast<uint16_t>(port_));
    if (!server) return pass(server.error());
    write_out(server->address() + "\n");
    std::fflush(stdout);  // Somebody waits for it, at a pipe too.
    tell("open it in a browser; Ctrl-C ends it\n");
    return 128 + server->serve(*html);
  }

 private:
  Result<std::string> page() const {
    std::error_code error;
    if (inputs_.size() == 1 &&
        !std::filesystem::is_directory(inputs_[0], error)) {
      const Result<MappedFile> file = MappedFile::open(inputs_[0]);
      if (!file) return pass(file.error());
      if (file->bytes().starts_with("<!DOCTYPE html>")) {
        return std::string(file->bytes());
      }
    }
    const Result<ReportPage> made = report_page(inputs_);
    if (!made) return pass(made.error());
    return page_html(*made);
  }

  std::vector<std::string> inputs_;
  int port_ = 0;
};

}  // namespace

std::unique_ptr<Command> make_view_command() {
  return std::make_unique<ViewCommand>();
}

}  // namespace reprise
