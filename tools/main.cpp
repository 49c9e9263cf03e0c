// SPDX-License-Identifier: GPL-2.0-or-later
// The dpa4 command line: reads the arguments, runs one command, turns errors into one line and an
// exit code.
#include <exception>
#include <iostream>
#include <memory>
#include <new>
#include <string>

#include <CLI/CLI.hpp>

#include "src/base/error.h"
#include "src/base/version.h"
#include "tools/commands.h"

namespace dpa4::tools {
namespace {

/// Messages of a terminal program: results alone go to standard output.
class TerminalLogger final : public Logger {
 public:
  void info(const std::string&) override {}
  void warning(const std::string& line) override { std::clog << "dpa4: " << line << "\n"; }
};

/// How each command is called; the parser's own text would leave out how arguments belong together.
std::string usage_of(const std::string& command) {
  if (command == "info") {
    return "Usage: dpa4 info MODEL [--json] [--head NAME]\n       dpa4 info --build [--json]";
  }
  if (command == "eval") return "Usage: dpa4 eval MODEL STRUCTURE [OPTIONS]";
  if (command == "check") return "Usage: dpa4 check [OPTIONS] FILE.json...";
  if (command == "tune") return "Usage: dpa4 tune MODEL [OPTIONS]";
  if (command == "bench") return "Usage: dpa4 bench [OPTIONS] [PRESET:ATOMS | FILE.pt:ATOMS]...";
  return "Usage: dpa4 info | eval | check | tune | bench ...  (dpa4 COMMAND --help says more)";
}

class HelpFormatter final : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* app, std::string /*name*/) const override {
    return usage_of(app->get_name()) + "\n";
  }
};

void add_run_options(CLI::App& command, RunOptions& run) {
  command
      .add_option("--engine", run.engine, "eager, native or auto: the fastest that runs the model")
      ->type_name("NAME")
      ->capture_default_str();
  command.add_option("--device", run.device, "cpu, cuda, cuda:N or auto: CUDA where it is usable")
      ->type_name("NAME")
      ->capture_default_str();
  command.add_option("--precision", run.precision, "float32 or float64")
      ->type_name("NAME")
      ->capture_default_str();
  command
      .add_option("--cohort", run.cohort,
                  "most edges worked on at a time (else: what suits the machine)")
      ->type_name("N");
  command.add_option("--memory", run.memory, "bytes the model may use (4G, 500M), min or auto")
      ->type_name("BYTES")
      ->capture_default_str();
  command
      .add_option(
          "--arithmetic", run.arithmetic,
          "kernels of the native engine: auto, split or fp32 (CUDA), an instruction set (CPU)")
      ->type_name("NAME")
      ->capture_default_str();
  command.add_option("--head", run.head, "branch of a multi-task model")->type_name("NAME");
  command.add_flag("--ema", run.ema, "use the averaged weights of a training checkpoint");
}

CLI::App* add_info(CLI::App& app, InfoOptions& options) {
  CLI::App* command =
      app.add_subcommand("info", "What a model file holds, or what this build can run");
  command->add_option("MODEL", options.model, "training checkpoint (.pt)")->type_name("");
  command->add_flag("--build", options.build, "describe this program instead");
  command->add_flag("--json", options.json, "print JSON");
  command->add_option("--head", options.head, "branch of a multi-task model")->type_name("NAME");
  return command;
}

CLI::App* add_eval(CLI::App& app, EvalOptions& options) {
  CLI::App* command = app.add_subcommand("eval", "Energy, forces and stress of structures");
  command->add_option("MODEL", options.model, "training checkpoint (.pt)")
      ->required()
      ->type_name("");
  command->add_option("STRUCTURE", options.structure, "LAMMPS data file or (extended) XYZ file")
      ->required()
      ->type_name("");
  command->add_flag("--json", options.json, "print JSON, all digits");
  command
      ->add_option("--elements", options.elements,
                   "data file: the element of each atom type, as in Si,C")
      ->type_name("LIST");
  command
      ->add_option("--atom-style", options.atom_style,
                   "data file: atomic, charge, molecular or full")
      ->type_name("NAME");
  command
      ->add_option("--boundary", options.boundary,
                   "ppp, ppf, ...: p periodic, f not, along a, b, c")
      ->type_name("PPP");
  command->add_option("--charge", options.charge, "total charge, for models that take it")
      ->type_name("Q");
  command->add_option("--spin", options.spin, "spin multiplicity, for models that take it")
      ->type_name("S");
  command->add_option("--fparam", options.fparam, "frame parameters, as in 0.3,-0.7")
      ->type_name("LIST");
  add_run_options(*command, options.run);
  command->footer(
      "Without --elements a data file names its elements by type labels or by the comments of "
      "Masses,\n"
      "as in `1 28.0855 # Si`; without --atom-style the comment of its Atoms section counts; it "
      "is\n"
      "periodic unless --boundary says else. An XYZ file says all that itself. Atoms of a data "
      "file are\n"
      "printed in the order of their IDs. Stress is positive under tension.");
  return command;
}

CLI::App* add_check(CLI::App& app, CheckOptions& options) {
  CLI::App* command = app.add_subcommand(
      "check", "Compare results with files of reference results; exit 1 if they differ");
  command->add_option("FILE", options.files, "reference results (JSON)")->required()->type_name("");
  command->add_option("--model", options.model, "model file (else: as each FILE says)")
      ->type_name("FILE");
  add_run_options(*command, options.run);
  command->footer(
      "One line a frame with the largest error of each quantity, in eV and eV/Angstrom.\n"
      "Accepted: float64: energy within 1e-10 relative, all else within 1e-9 + 1e-9 |reference|;\n"
      "float32: everything within 1e-5 + 1e-4 |reference|, against the float64 reference.");
  return command;
}

CLI::App* add_tune(CLI::App& app, TuneOptions& options) {
  CLI::App* command = app.add_subcommand(
      "tune", "Measure which kernels are fastest for a model on this machine, and record it");
  command->add_option("MODEL", options.model, "training checkpoint (.pt)")
      ->required()
      ->type_name("");
  add_run_options(*command, options.run);
  command->footer(
      "Every candidate is compared with float64 and timed on a synthetic structure. Runs on this "
      "machine\n"
      "take the fastest accurate one from the record.");
  return command;
}

CLI::App* add_bench(CLI::App& app, BenchOptions& options) {
  CLI::App* command =
      app.add_subcommand("bench", "Time and memory of steps: energy, forces and virial");
  command->add_option("CASE", options.cases, "PRESET:ATOMS (random weights) or FILE.pt:ATOMS")
      ->type_name("");
  command->add_option("--repeat", options.repeat, "steps that are timed")
      ->type_name("N")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  command->add_flag("--operations", options.operations, "where the time goes (native engine)");
  command->add_flag("--compare-eager", options.compare_eager, "time the eager engine as well");
  command->add_option("--json", options.json, "write the results to this file")->type_name("FILE");
  add_run_options(*command, options.run);
  command->footer(
      "Structures are diamond lattices with small random displacements, edges are built before.");
  return command;
}

int run(int argc, char** argv) {
  CLI::App app("dpa4: energies and forces of DPA4/SeZM models from their training checkpoints",
               "dpa4");
  app.set_version_flag("--version", std::string("dpa4 ") + kVersion);
  app.require_subcommand(1);
  app.formatter(std::make_shared<HelpFormatter>());  // before the commands, which inherit it
  InfoOptions info;
  EvalOptions eval;
  CheckOptions check;
  TuneOptions tune;
  BenchOptions bench;
  CLI::App* const info_command = add_info(app, info);
  CLI::App* const eval_command = add_eval(app, eval);
  CLI::App* const check_command = add_check(app, check);
  CLI::App* const tune_command = add_tune(app, tune);
  CLI::App* const bench_command = add_bench(app, bench);
  TerminalLogger log;
  try {
    app.parse(argc, argv);
    if (*info_command) return run_info(info, std::cout, log);
    if (*eval_command) return run_eval(eval, std::cout, log);
    if (*tune_command) return run_tune(tune, std::cout, log);
    if (*bench_command) return run_bench(bench, std::cout, log);
    DPA4_EXPECTS(*check_command);
    return run_check(check, std::cout, log);
  } catch (const CLI::Success& success) {
    return app.exit(success);  // --help, --version
  } catch (const CLI::ParseError& error) {
    const bool no_command = app.get_subcommands().empty() && argc > 1;
    log.warning(no_command ? "'" + std::string(argv[1]) + "' is no command" : error.what());
  } catch (const UsageError& error) {
    log.warning(error.what());
  }
  const auto commands = app.get_subcommands();
  std::clog << usage_of(commands.empty() ? "" : commands.front()->get_name()) << "\n";
  return kBadInput;
}

}  // namespace
}  // namespace dpa4::tools

int main(int argc, char** argv) {
  try {
    return dpa4::tools::run(argc, argv);
  } catch (const dpa4::InputError& error) {
    std::clog << "dpa4: " << error.what() << "\n";
    return dpa4::tools::kBadInput;
  } catch (const std::bad_alloc&) {
    std::clog << "dpa4: out of memory\n";
  } catch (const std::exception& error) {
    // LibTorch puts a stack trace behind the first line.
    const std::string text = error.what();
    std::clog << "dpa4: internal error: " << text.substr(0, text.find('\n')) << "\n";
  }
  return dpa4::tools::kInternalError;
}
