//! Plans that were shown, by id: nothing else can be carried out.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use crate::places::{Opened, Refusal};

/// Plans that are kept.
const MAX_PLANS: usize = 64;

/// A plan as it was shown.
pub struct Plan {
    id: String,
    /// What `fix` was called with.
    pub arguments: Vec<String>,
    pub files: Vec<Opened>,
    /// What `fix --json` said.
    pub json: String,
}

/// The newest last.
#[derive(Default)]
pub struct Plans(Mutex<VecDeque<Arc<Plan>>>);

impl Plans {
    /// Keeps a plan; its id.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn keep(&self, arguments: Vec<String>, files: Vec<Opened>, json: String) -> std::io::Result<String> {
        let mut bytes = [0; 8];
        rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
        let id = format!("plan-{:016x}", u64::from_ne_bytes(bytes));
        let mut plans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        plans.push_back(Arc::new(Plan { id: id.clone(), arguments, files, json }));
        if plans.len() > MAX_PLANS {
            plans.pop_front();
        }
        Ok(id)
    }

    /// A plan whose recording is as it was.
    ///
    /// # Errors
    /// If there is none.
    pub fn get(&self, id: &str) -> Result<Arc<Plan>, Refusal> {
        let plans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let plan = plans.iter().find(|plan| plan.id == id).cloned();
        let Some(plan) = plan else {
            let id = unstarve_model::clean(id);
            return Err(Refusal::new(format!(
                "No such plan: {id}. Nothing was changed. Call fix_plan, and use the plan_id of its answer."
            )));
        };
        match plan.files.iter().find(|file| !file.is_unchanged()) {
            Some(changed) => {
                let shown = &changed.shown;
                Err(Refusal::new(format!(
                    "{shown} has changed since the plan was shown. Nothing was changed. Call fix_plan again."
                )))
            }
            None => Ok(plan),
        }
    }
}
