//! SQL over the tables that unstarve writes, in files of one host or of ten thousand: what `unstarve-sql` is made of, and `unstarve-cluster`, which asks the
//! same on several machines.
//!
//! | module | what it is |
//! |---|---|
//! | `place`, `layout` | paths, globs and URLs → directories; what a path says |
//! | `bucket` | S3 and other servers of its API |
//! | `plain`, `read_only` | files of this machine, through no link; stores that are never written |
//! | `hours`, `belief` | of the files of an hour those whose rows count, by its commits; whether these are believed |
//! | `scan` | the files of a table as DataFusion reads them, those of other hours left out |
//! | `catalogue` | which file is of which table; a session with all of them |
//! | `functions` | `hist_quantile`, `hist_sum`, `role`, `share` |
//! | `views` | questions with a name |
//! | `answer` | a statement → rows on standard output or in a file |
//! | `screen` | what a terminal is shown of it |
//! | `page` | some of them as one HTML file |
//! | `args` | what a question is called with |
//! | `prompt` | the same, line by line |
//! | `program` | what both programs do around it |

pub mod answer;
pub mod args;
mod belief;
pub mod bucket;
pub mod catalogue;
pub mod functions;
mod hours;
mod layout;
pub mod page;
pub mod place;
pub mod plain;
pub mod program;
pub mod prompt;
pub mod read_only;
pub mod scan;
mod screen;
pub mod views;
