//! The simulators of a site: each file is opened once and shared.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use super::world::World;
use super::{ClusterSettings, Settings, Simulator, SiteClock};
use crate::backend::{BackendContext, Clock, Error, clock};
use crate::design::{Guards, HardwareBackend};

/// Opens simulators, which share the file that they have in common.
#[derive(Debug)]
pub struct Simulators {
    /// The file, if the settings name none.
    path: PathBuf,
    cluster: Arc<ClusterSettings>,
    worlds: BTreeMap<PathBuf, Arc<Mutex<World>>>,
    time: Arc<SiteClock>,
    last: Option<Arc<Simulator>>,
}

impl Simulators {
    /// None is open yet.
    ///
    /// # Errors
    ///
    /// The settings of the simulated cluster do not fit.
    pub fn new(guards: &Guards, context: &BackendContext) -> Result<Self, Error> {
        Ok(Self {
            path: context.simulated_state.clone(),
            cluster: Arc::new(ClusterSettings::read(guards).map_err(Error::Settings)?),
            worlds: BTreeMap::new(),
            time: match clock(guards) {
                Clock::Virtual => SiteClock::shared(&context.simulated_state),
                Clock::Real => SiteClock::alone(),
            },
            last: None,
        })
    }

    /// Opens the simulator of a backend.
    ///
    /// # Errors
    ///
    /// A setting does not fit, or the file cannot be used.
    pub fn open(&mut self, backend: &HardwareBackend) -> Result<Arc<Simulator>, Error> {
        let mut settings = Settings::read(backend).map_err(Error::Settings)?;
        settings.cluster = self.cluster.clone();
        let path = match &settings.state {
            Some(name) => self.path.with_file_name(&**name),
            None => self.path.clone(),
        };
        let world = match self.worlds.get(&path) {
            Some(world) => world.clone(),
            None => {
                let opened = World::open(&path, self.time.clone()).map_err(|source| {
                    Error::SimulatedSite {
                        path: path.clone(),
                        source,
                    }
                })?;
                let world = Arc::new(Mutex::new(opened));
                self.worlds.insert(path, world.clone());
                world
            }
        };
        let simulator = Arc::new(Simulator { settings, world });
        self.last = Some(simulator.clone());
        Ok(simulator)
    }

    /// The time of all of them.
    #[must_use]
    pub fn clock(&self) -> &Arc<SiteClock> {
        &self.time
    }

    /// The simulator that was opened last, as the cluster of its machines; one without machines where
    /// none was opened.
    ///
    /// # Errors
    ///
    /// The file cannot be used.
    pub fn cluster(&mut self) -> Result<Arc<Simulator>, Error> {
        match &self.last {
            Some(simulator) => Ok(simulator.clone()),
            None => self.open(&HardwareBackend::default()),
        }
    }
}
